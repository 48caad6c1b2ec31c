use super::*;

#[test]
fn a_name_node_that_wants_kerberos_is_distinguished_from_one_that_is_away() {
    let none = config::FlinkConfig::default();
    let request = Request::from_config("shop", "hdfs://nn:8020/jobs/a.jar", &none, &none).unwrap();
    let fatal = |class: &str| HdfsError::FatalRPCError(class.to_owned(), "no".to_owned());
    for (error, reason, part) in [
        (
            HdfsError::OperationFailed("Failed to load libgssapi_krb".to_owned()),
            "ArtifactAccessDenied",
            "HADOOP_TOKEN_FILE_LOCATION",
        ),
        (HdfsError::NoSASLMechanism, "ArtifactAccessDenied", "SASL"),
        (fatal("javax.security.sasl.SaslException"), "ArtifactAccessDenied", "SaslException: no"),
        (fatal("a.SecretManager$InvalidToken"), "ArtifactAccessDenied", "InvalidToken"),
        (fatal("org.apache.hadoop.ipc.StandbyException"), "ArtifactUnreachable", "Standby"),
        (
            HdfsError::DataTransferError("All DataNodes failed".to_owned()),
            "ArtifactUnreachable",
            "dfs.data.transfer.protection",
        ),
        (HdfsError::FileNotFound("/jobs/a.jar".to_owned()), "ArtifactNotFound", "hdfs://nn:8020"),
    ] {
        let failure = failure(&request, &error);
        assert_eq!(failure.reason(), reason, "{failure}");
        assert_eq!(failure.is_transient(), reason == "ArtifactUnreachable", "{failure}");
        assert!(failure.to_string().contains(part), "{failure}");
    }
}
