//! Limits and usage of Cinder per project.

use super::*;

/// Returns the volumes and gigabytes in use, of one volume type or of all.
fn usage(state: &CloudState, project: &str, kind: Option<&str>) -> (i64, i64) {
    let volumes = state.volumes.values().filter(|volume| volume.project_id == project);
    let volumes = volumes.filter(|volume| kind.is_none_or(|kind| volume.kind == kind));
    volumes.fold((0, 0), |(count, size), volume| (count + 1, size + volume.size))
}

/// Returns an error if a volume of `size` exceeds a limit of the project: of each volume, of all, or of its type.
pub(super) fn check(state: &CloudState, project: &str, size: i64, kind: &str) -> Result<(), Reply> {
    let largest = state.quota(project, "per_volume_gigabytes");
    if largest >= 0 && size > largest {
        return Err(over_limit(&format!(
            "VolumeSizeExceedsLimit: Requested volume size {size}G is larger than maximum allowed limit {largest}G."
        )));
    }
    for (suffix, kind) in [(String::new(), None), (format!("_{kind}"), Some(kind))] {
        let (count, used) = usage(state, project, kind);
        let (gigabytes, volumes) = (format!("gigabytes{suffix}"), format!("volumes{suffix}"));
        let limit = state.quota(project, &gigabytes);
        if limit >= 0 && used + size > limit {
            return Err(over_limit(&format!(
                "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed {gigabytes} quota. \
                 Requested {size}G, quota is {limit}G and {used}G has been consumed."
            )));
        }
        let limit = state.quota(project, &volumes);
        if limit >= 0 && count + 1 > limit {
            return Err(over_limit(&format!(
                "VolumeLimitExceeded: Maximum number of volumes allowed ({limit}) exceeded for quota '{volumes}'."
            )));
        }
    }
    Ok(())
}

/// Returns Cinder's error for an exceeded limit. It says to try again at once, although that does not help.
fn over_limit(message: &str) -> Reply {
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    let body = json!({"overLimit": {"code": 413, "message": message, "retryAfter": "0"}});
    Reply::json(status, &body).with_header(http::header::RETRY_AFTER, "0")
}

/// `GET /limits`.
pub(super) fn limits(state: &CloudState, project: &str) -> Reply {
    let (count, size) = usage(state, project, None);
    Reply::ok(&json!({"limits": {"rate": [], "absolute": {
        "maxTotalVolumes": state.quota(project, "volumes"),
        "maxTotalVolumeGigabytes": state.quota(project, "gigabytes"),
        "maxTotalSnapshots": 10, "maxTotalBackups": 10, "maxTotalBackupGigabytes": 1000,
        "totalVolumesUsed": count, "totalGigabytesUsed": size, "totalSnapshotsUsed": 0,
        "totalBackupsUsed": 0, "totalBackupGigabytesUsed": 0,
    }}}))
}

/// `GET /os-quota-sets/{project}`, with `?usage=True` also what is in use.
pub(super) fn get(state: &CloudState, context: &Context<'_>, project: &str) -> Reply {
    let with_usage = context.request.query.get("usage").is_some_and(|it| it.eq_ignore_ascii_case("true"));
    let limit = |resource: &str| state.quota(project, resource);
    let (count, size) = usage(state, project, None);
    let mut quotas = vec![
        ("volumes".to_owned(), limit("volumes"), count),
        ("gigabytes".to_owned(), limit("gigabytes"), size),
        ("per_volume_gigabytes".to_owned(), limit("per_volume_gigabytes"), 0),
        ("snapshots".to_owned(), 10, 0),
        ("backups".to_owned(), 10, 0),
        ("backup_gigabytes".to_owned(), 1000, 0),
        ("groups".to_owned(), 10, 0),
    ];
    for (_, kind, _) in TYPES {
        let (count, size) = usage(state, project, Some(kind));
        for (resource, used) in [(format!("volumes_{kind}"), count), (format!("gigabytes_{kind}"), size)] {
            quotas.push((resource.clone(), limit(&resource), used));
        }
    }
    let view = |(resource, limit, used): (String, i64, i64)| {
        let detailed = json!({"limit": limit, "in_use": used, "reserved": 0, "allocated": 0});
        (resource, if with_usage { detailed } else { json!(limit) })
    };
    let mut views: Object = quotas.into_iter().map(view).collect();
    set(&mut views, "id", json!(project));
    Reply::ok(&json!({"quota_set": views}))
}
