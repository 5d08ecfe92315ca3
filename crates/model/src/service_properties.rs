//! Settings that a client can read and write for one service of an account: logging, metrics, CORS.
//!
//! Logging and metrics settings steer what `server/src/analytics` writes.

/// All settings of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceProperties {
    /// Request logging.
    pub logging: Logging,
    /// Metrics by the hour.
    pub hour_metrics: Metrics,
    /// Metrics by the minute.
    pub minute_metrics: Metrics,
    /// Who may call from a browser.
    pub cors: Vec<CorsRule>,
    /// What only the blob service has.
    pub blob: BlobServiceProperties,
}

/// The settings that only the blob service has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobServiceProperties {
    /// The version that a request without one is taken for.
    pub default_service_version: Option<String>,
    /// For how long deleted blobs can be had back.
    pub delete_retention: DeleteRetention,
    /// The website in `$web`; kept and given back.
    pub static_website: StaticWebsite,
}

/// What becomes of deleted blobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteRetention {
    /// Days for which they can be had back, when switched on.
    pub days: Option<u32>,
    /// Deleted snapshots and versions can be deleted for good.
    pub allows_permanent: bool,
}

/// A website of blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub struct StaticWebsite {
    pub enabled: bool,
    pub index_document: Option<String>,
    pub error_document: Option<String>,
    pub default_index_path: Option<String>,
}

/// New settings; what is `None` stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePropertiesPatch {
    /// Request logging.
    pub logging: Option<Logging>,
    /// Metrics by the hour.
    pub hour_metrics: Option<Metrics>,
    /// Metrics by the minute.
    pub minute_metrics: Option<Metrics>,
    /// Who may call from a browser.
    pub cors: Option<Vec<CorsRule>>,
    /// The version that a request to the blob service without one is taken for.
    pub default_service_version: Option<String>,
    /// For how long deleted blobs can be had back.
    pub delete_retention: Option<DeleteRetention>,
    /// The website in `$web`.
    pub static_website: Option<StaticWebsite>,
}

/// Which requests are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub struct Logging {
    pub version: String,
    pub delete: bool,
    pub read: bool,
    pub write: bool,
    pub retention: RetentionPolicy,
}

/// Which metrics are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub struct Metrics {
    pub version: String,
    pub enabled: bool,
    /// Only given when metrics are on.
    pub include_apis: Option<bool>,
    pub retention: RetentionPolicy,
}

/// For how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Days, when switched on.
    pub days: Option<u32>,
}

/// One CORS rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsRule {
    /// `*` or origins.
    pub allowed_origins: Vec<String>,
    /// HTTP methods.
    pub allowed_methods: Vec<String>,
    /// `*`, header names, or prefixes that end in `*`.
    pub allowed_headers: Vec<String>,
    /// `*`, header names, or prefixes that end in `*`.
    pub exposed_headers: Vec<String>,
    /// How long a browser may remember a preflight.
    pub max_age_seconds: u32,
}

impl Default for ServiceProperties {
    /// The settings of a new account.
    fn default() -> Self {
        let off = RetentionPolicy { days: None };
        Self {
            logging: Logging {
                version: "1.0".into(),
                delete: false,
                read: false,
                write: false,
                retention: off,
            },
            hour_metrics: Metrics {
                version: "1.0".into(),
                enabled: true,
                include_apis: Some(true),
                retention: RetentionPolicy { days: Some(7) },
            },
            minute_metrics: Metrics {
                version: "1.0".into(),
                enabled: false,
                include_apis: None,
                retention: off,
            },
            cors: Vec::new(),
            blob: BlobServiceProperties::default(),
        }
    }
}

impl ServiceProperties {
    /// These settings with the given ones put in their place.
    #[must_use]
    pub fn patched(mut self, patch: ServicePropertiesPatch) -> Self {
        self.logging = patch.logging.unwrap_or(self.logging);
        self.hour_metrics = patch.hour_metrics.unwrap_or(self.hour_metrics);
        self.minute_metrics = patch.minute_metrics.unwrap_or(self.minute_metrics);
        self.cors = patch.cors.unwrap_or(self.cors);
        let blob = &mut self.blob;
        if patch.default_service_version.is_some() {
            blob.default_service_version = patch.default_service_version;
        }
        blob.delete_retention = patch.delete_retention.unwrap_or(blob.delete_retention);
        if let Some(website) = patch.static_website {
            blob.static_website = website;
        }
        self
    }
}
