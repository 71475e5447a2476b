//! From a URL and options to an object store.
//!
//! Options are the ones `object_store` documents (`aws_endpoint_url`, `google_service_account`,
//! `azure_storage_account_name`, … in any case), with the usual environment variables as defaults.
//! An option nobody knows is an error, not something to skip.
//!
//! A server of one's own, or an emulator, is named by its endpoint:
//!
//! ```text
//! s3://   aws_endpoint_url        http://127.0.0.1:9000
//! gs://   google_base_url         http://127.0.0.1:4443                     google_skip_signature=true: no credentials
//! az://   azure_storage_endpoint  http://127.0.0.1:10000/devstoreaccount1   with azure_storage_account_name and _key
//! ```
//!
//! An endpoint given as `http://` is spoken to in plain HTTP. An endpoint that is not the provider's own is probed for
//! conditional puts before the first write ([`crate::ensure_conditional_put`]).

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig, StaticCredentialProvider};
use url::Url;

use crate::error::{IoError, IoErrorKind};

/// `memory://` datasets live as long as the process and are shared by all its handles.
static MEMORY: LazyLock<Arc<InMemory>> = LazyLock::new(|| Arc::new(InMemory::new()));

/// A URL taken apart: the store it names, and where in that store the dataset lies.
pub(crate) struct Located {
    pub url: Url,
    pub root: Arc<dyn ObjectStore>,
    pub prefix: Path,
    /// The directory, when the dataset is on this machine.
    pub directory: Option<PathBuf>,
    /// An endpoint that is not known to honour conditional puts, so it must be probed.
    pub unproven_endpoint: Option<String>,
}

pub(crate) fn locate(text: &str, options: &BTreeMap<String, String>) -> Result<Located, IoError> {
    let invalid = |message: String| IoError::new(IoErrorKind::Invalid, "open", text, message);
    if text.is_empty() {
        return Err(invalid("the URL is empty".into()));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return local(PathBuf::from(text), text, options);
    };
    match scheme {
        "file" => {
            let url = Url::parse(text).map_err(|e| invalid(e.to_string()))?;
            let path = url.to_file_path().map_err(|()| invalid("not a local path".into()))?;
            local(path, text, options)
        }
        "memory" => {
            refuse_options(text, options)?;
            let prefix = Path::parse(rest.trim_matches('/')).map_err(|e| invalid(e.to_string()))?;
            let url = Url::parse(&format!("memory:///{prefix}/")).map_err(|e| invalid(e.to_string()))?;
            let root: Arc<dyn ObjectStore> = Arc::clone(&*MEMORY) as _;
            Ok(Located { url, root, prefix, directory: None, unproven_endpoint: None })
        }
        "s3" | "s3a" | "gs" | "az" | "azure" | "abfs" | "abfss" | "adl" => remote(text, scheme, options),
        _ => Err(invalid(format!(
            "unknown scheme {scheme:?}; known are a local path, file://, memory://, s3://, gs:// and az://"
        ))),
    }
}

fn refuse_options(text: &str, options: &BTreeMap<String, String>) -> Result<(), IoError> {
    match options.keys().next() {
        None => Ok(()),
        Some(key) => Err(IoError::new(
            IoErrorKind::Invalid,
            "open",
            text,
            format!("storage option {key:?} has no meaning for this kind of store"),
        )),
    }
}

fn local(path: PathBuf, text: &str, options: &BTreeMap<String, String>) -> Result<Located, IoError> {
    refuse_options(text, options)?;
    let absolute = std::path::absolute(&path).map_err(|e| IoError::from_os("open", text, e))?;
    let mut directory = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                directory.pop();
            }
            Component::CurDir => {}
            other => directory.push(other),
        }
    }
    let bad = || IoError::new(IoErrorKind::Invalid, "open", text, "not a path a URL can name");
    let url = Url::from_directory_path(&directory).map_err(|()| bad())?;
    // Not `from_absolute_path`: that one needs the directory to exist already.
    let prefix = Path::from_url_path(url.path()).map_err(|_| bad())?;
    let root: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
    Ok(Located { url, root, prefix, directory: Some(directory), unproven_endpoint: None })
}

/// Retries with exponential back-off: a store that answers 5xx or drops connections for a minute
/// is waited for, one that stays away longer is reported as unavailable.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: 8,
        retry_timeout: Duration::from_secs(60),
    }
}

fn remote(text: &str, scheme: &str, options: &BTreeMap<String, String>) -> Result<Located, IoError> {
    let invalid = |message: String| IoError::new(IoErrorKind::Invalid, "open", text, message);
    let parsed = Url::parse(text).map_err(|e| invalid(e.to_string()))?;
    let bucket = parsed.host_str().unwrap_or("");
    if bucket.is_empty() {
        return Err(invalid("the URL names no bucket".into()));
    }
    let prefix = Path::from_url_path(parsed.path()).map_err(|e| invalid(e.to_string()))?;
    let mut url = parsed.clone();
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    let unknown = |key: &str| invalid(format!("unknown storage option {key:?} for {scheme}://"));
    let built = |e: object_store::Error| IoError::from_store("open", text, e);
    let mut unproven_endpoint = None;
    let root: Arc<dyn ObjectStore> = match scheme {
        "s3" | "s3a" => {
            let mut builder = AmazonS3Builder::from_env().with_url(text).with_retry(retries());
            for (key, value) in options {
                let name =
                    AmazonS3ConfigKey::from_str(&key.to_ascii_lowercase()).map_err(|_| unknown(key))?;
                builder = builder.with_config(name, value);
            }
            if let Some(endpoint) = builder.get_config_value(&AmazonS3ConfigKey::Endpoint) {
                if !is_at(&endpoint, AWS) {
                    unproven_endpoint = Some(endpoint.clone());
                }
                // An endpoint given as plain http is meant as such: asking for a second option
                // to confirm it would only be a stumbling block.
                if endpoint.starts_with("http://") {
                    builder = builder.with_allow_http(true);
                }
            }
            let conditional = AmazonS3ConfigKey::ConditionalPut;
            if builder.get_config_value(&conditional).is_some_and(|v| v == "disabled") {
                return Err(invalid(
                    "conditional puts are disabled; commits would be lost without them".into(),
                ));
            }
            Arc::new(builder.build().map_err(built)?)
        }
        "gs" => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_url(text).with_retry(retries());
            for (key, value) in options {
                let name = GoogleConfigKey::from_str(&key.to_ascii_lowercase()).map_err(|_| unknown(key))?;
                builder = builder.with_config(name, value);
            }
            let base = builder.get_config_value(&GoogleConfigKey::BaseUrl);
            unproven_endpoint = base.filter(|base| !is_at(base, GOOGLE));
            let anonymous = builder.get_config_value(&GoogleConfigKey::SkipSignature);
            if anonymous.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
                // Without this, object_store leaves the signature out of reads only, and asks the metadata server of a
                // machine at Google for the credentials of writes.
                let nobody = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
                builder = builder.with_credentials(Arc::new(nobody));
            }
            Arc::new(builder.build().map_err(built)?)
        }
        _ => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_url(text).with_retry(retries());
            for (key, value) in options {
                let name = AzureConfigKey::from_str(&key.to_ascii_lowercase()).map_err(|_| unknown(key))?;
                builder = builder.with_config(name, value);
            }
            let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
            let emulator = builder.get_config_value(&AzureConfigKey::UseEmulator);
            if emulator.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
                unproven_endpoint = Some("the storage emulator".into());
            } else {
                unproven_endpoint = endpoint.clone().filter(|endpoint| !is_at(endpoint, AZURE));
            }
            if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
                builder = builder.with_config(AzureConfigKey::Client(ClientConfigKey::AllowHttp), "true");
            }
            Arc::new(builder.build().map_err(built)?)
        }
    };
    Ok(Located { url, root, prefix, directory: None, unproven_endpoint })
}

// The providers' own endpoints honour conditional puts on every bucket.
const AWS: &[&str] = &[".amazonaws.com", ".amazonaws.com.cn"];
const GOOGLE: &[&str] = &[".googleapis.com"];
const AZURE: &[&str] = &[".windows.net", ".microsoft.com", ".chinacloudapi.cn", ".usgovcloudapi.net"];

/// Whether an endpoint's host is below one of the domains.
fn is_at(endpoint: &str, domains: &[&str]) -> bool {
    let host = Url::parse(endpoint).ok().and_then(|u| u.host_str().map(str::to_owned));
    host.is_some_and(|host| domains.iter().any(|domain| host.ends_with(domain)))
}
