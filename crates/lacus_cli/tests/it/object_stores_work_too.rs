//! The same commands on an S3 server, which `scripts/with-s3` starts. Skipped, and said so, without one.

use crate::harness::{Sandbox, counting};

#[test]
fn on_s3() {
    let Ok(endpoint) = std::env::var("LACUS_TEST_S3_ENDPOINT") else {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no S3 server\n");
        return;
    };
    let variable = |name: &str| std::env::var(format!("LACUS_TEST_S3_{name}")).unwrap();
    let sandbox = Sandbox::empty();
    let url = format!("s3://{}/cli-{}/größe and more", variable("BUCKET"), std::process::id());
    let options = [
        format!("aws_endpoint={endpoint}"),
        format!("aws_access_key_id={}", variable("KEY")),
        format!("aws_secret_access_key={}", variable("SECRET")),
        format!("AWS_REGION={}", variable("REGION")),
    ];
    let lacus = |args: &[&str]| {
        let args = args.iter().map(|arg| (*arg).to_owned());
        let options = options.iter().flat_map(|option| ["--storage-option".to_owned(), option.clone()]);
        sandbox.lacus(args.chain(options))
    };
    let error = lacus(&["ls", &url]).fails(3);
    assert!(error.contains("no dataset"), "{error}");
    lacus(&["create", &url]).ok();
    sandbox.write_one("a.npy", &counting(&[100, 300]));
    lacus(&["put", &url, "a.npy", "--chunk-shape", "7,300"]).ok();
    lacus(&["get", &url, "a", "-o", "b.npy"]).ok();
    assert_eq!(sandbox.read_one("b.npy"), counting(&[100, 300]));
    lacus(&["mv", &url, "a", "b c/d"]).ok();
    assert_eq!(lacus(&["ls", &url]).ok(), "b c/d\n");
    lacus(&["compact", &url]).ok();
    let doctor = lacus(&["doctor", &url]).ok();
    assert!(doctor.contains("conditional puts") && doctor.contains("healthy"), "{doctor}");
    lacus(&["rm", &url, "b c/d"]).ok();
    assert_eq!(lacus(&["create", &url]).code(), Some(4));
    // A key that the server does not know is refused, and no secret is printed.
    let refused = sandbox.lacus([
        "ls",
        &url,
        "--storage-option",
        &options[0],
        "--storage-option",
        "aws_access_key_id=nobody",
        "--storage-option",
        "aws_secret_access_key=topsecret",
    ]);
    let error = refused.fails(5);
    assert!(error.contains("lacus: ") && !error.contains("topsecret"), "{error}");
}
