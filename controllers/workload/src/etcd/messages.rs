//! Messages of etcd's gRPC interface, with the fields that are read or written here. Numbers are those of etcd's
//! `rpc.proto`.

/// Request for the members.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberListRequest {
    /// Ask a quorum.
    #[prost(bool, tag = "1")]
    pub(super) linearizable: bool,
}

/// Answer with the members.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) members: Vec<Member>,
}

/// One member.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Member {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) peer_urls: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(super) client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub(super) is_learner: bool,
}

/// Request to add a member.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberAddRequest {
    #[prost(string, repeated, tag = "1")]
    pub(super) peer_urls: Vec<String>,
    #[prost(bool, tag = "2")]
    pub(super) is_learner: bool,
}

/// Request to remove a member.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberRemoveRequest {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
}

/// Request for alarms. All fields at zero ask for the alarms of all members.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AlarmRequest {
    #[prost(int32, tag = "1")]
    pub(super) action: i32,
}

/// Answer with the alarms.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) alarms: Vec<AlarmMember>,
}

/// Alarm of one member.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub(super) member_id: u64,
    /// 1 is NOSPACE, 2 is CORRUPT.
    #[prost(int32, tag = "2")]
    pub(super) alarm: i32,
}

/// Request or answer without a field of interest.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Empty {}

/// Answer with the state of the asked member.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusResponse {
    /// Id of the leader, or 0.
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
}

/// Request to the leader to make another member the leader.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MoveLeaderRequest {
    #[prost(uint64, tag = "1")]
    pub(super) target_id: u64,
}
