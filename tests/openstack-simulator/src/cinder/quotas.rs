//! Limits and usage of Cinder per project.

use super::*;

/// Returns the volumes and gigabytes in use.
fn usage(state: &CloudState, project: &str) -> (i64, i64) {
    let volumes = state.volumes.values().filter(|volume| volume.project_id == project);
    volumes.fold((0, 0), |(count, size), volume| (count + 1, size + volume.size))
}

/// Returns an error if a volume of `size` exceeds the project's quota.
pub(super) fn check(state: &CloudState, project: &str, size: i64) -> Result<(), Reply> {
    let (count, used) = usage(state, project);
    let gigabytes = state.quota(project, "gigabytes");
    let volumes = state.quota(project, "volumes");
    let message = if gigabytes >= 0 && used + size > gigabytes {
        format!(
            "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. \
             Requested {size}G, quota is {gigabytes}G and {used}G has been consumed."
        )
    } else if volumes >= 0 && count + 1 > volumes {
        format!(
            "VolumeLimitExceeded: Maximum number of volumes allowed ({volumes}) exceeded for quota 'volumes'."
        )
    } else {
        return Ok(());
    };
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    let body = json!({"overLimit": {"code": 413, "message": message, "retryAfter": "0"}});
    Err(Reply::json(status, &body).with_header(http::header::RETRY_AFTER, "0"))
}

/// `GET /limits`.
pub(super) fn limits(state: &CloudState, project: &str) -> Reply {
    let (count, size) = usage(state, project);
    Reply::ok(&json!({"limits": {"rate": [], "absolute": {
        "maxTotalVolumes": state.quota(project, "volumes"),
        "maxTotalVolumeGigabytes": state.quota(project, "gigabytes"),
        "maxTotalSnapshots": 10, "maxTotalBackups": 10, "maxTotalBackupGigabytes": 1000,
        "totalVolumesUsed": count, "totalGigabytesUsed": size, "totalSnapshotsUsed": 0,
        "totalBackupsUsed": 0, "totalBackupGigabytesUsed": 0,
    }}}))
}

/// `GET /os-quota-sets/{project}`.
pub(super) fn get(state: &CloudState, project: &str) -> Reply {
    Reply::ok(&json!({"quota_set": {
        "id": project, "volumes": state.quota(project, "volumes"),
        "gigabytes": state.quota(project, "gigabytes"), "per_volume_gigabytes": -1, "snapshots": 10,
        "backups": 10, "backup_gigabytes": 1000, "groups": 10,
    }}))
}
