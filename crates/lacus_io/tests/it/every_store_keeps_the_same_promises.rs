//! The suite of `lacus_simulation::conformance` on a disk, in memory, and on servers that speak the protocols of Amazon,
//! Google and Microsoft. `scripts/with-s3`, `with-gcs` and `with-azure` start these; without one its tests are skipped, which
//! the scripts say loudly.

use std::collections::BTreeMap;
use std::io::Write;

use lacus_simulation::conformance::Opener;

/// A part of a path that no other test has.
fn fresh(check: &str) -> String {
    format!("conformance-{}-{check}", lacus_io::World::real().uuid())
}

/// The variables of a server under test by their last words, or None, said on stderr.
fn server(kind: &str, names: &[&str]) -> Option<Vec<String>> {
    let found: Option<Vec<String>> =
        names.iter().map(|name| std::env::var(format!("LACUS_TEST_{kind}_{name}")).ok()).collect();
    if found.is_none() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: no {kind} server");
    }
    found
}

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn on_s3(check: &str) -> Option<Opener> {
    let found = server("S3", &["ENDPOINT", "BUCKET", "KEY", "SECRET", "REGION"])?;
    let [endpoint, bucket, key, secret, region] = found.as_slice() else { return None };
    let options = options(&[
        ("aws_endpoint_url", endpoint),
        ("aws_access_key_id", key),
        ("aws_secret_access_key", secret),
        ("aws_region", region),
    ]);
    Some(Opener::new(format!("s3://{bucket}/{}", fresh(check)), options))
}

fn on_gcs(check: &str) -> Option<Opener> {
    let found = server("GCS", &["ENDPOINT", "BUCKET"])?;
    let [endpoint, bucket] = found.as_slice() else { return None };
    let options = options(&[("google_base_url", endpoint), ("google_skip_signature", "true")]);
    Some(Opener::new(format!("gs://{bucket}/{}", fresh(check)), options))
}

fn on_azure(check: &str) -> Option<Opener> {
    let found = server("AZURE", &["ENDPOINT", "CONTAINER", "ACCOUNT", "KEY"])?;
    let [endpoint, container, account, key] = found.as_slice() else { return None };
    let options = options(&[
        ("azure_storage_endpoint", endpoint),
        ("azure_storage_account_name", account),
        ("azure_storage_account_key", key),
    ]);
    Some(Opener::new(format!("az://{container}/{}", fresh(check)), options))
}

mod disk {
    use super::*;

    macro_rules! check {
        ($name:ident) => {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let directory = tempfile::tempdir().unwrap();
                let place = directory.path().join("größe and more");
                let place = Opener::new(place.to_str().unwrap(), BTreeMap::new());
                lacus_simulation::conformance::$name(&place).await;
            }
        };
    }
    lacus_simulation::for_each_check!(check);
}

mod memory {
    use super::*;

    macro_rules! check {
        ($name:ident) => {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let place = Opener::new(format!("memory://{}", fresh(stringify!($name))), BTreeMap::new());
                lacus_simulation::conformance::$name(&place).await;
            }
        };
    }
    lacus_simulation::for_each_check!(check);
}

macro_rules! on_a_server {
    ($module:ident, $opener:ident) => {
        mod $module {
            macro_rules! check {
                ($name:ident) => {
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $name() {
                        if let Some(place) = super::$opener(stringify!($name)) {
                            lacus_simulation::conformance::$name(&place).await;
                        }
                    }
                };
            }
            lacus_simulation::for_each_check!(check);
        }
    };
}

on_a_server!(s3, on_s3);
on_a_server!(gcs, on_gcs);
on_a_server!(azure, on_azure);
