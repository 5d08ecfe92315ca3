//! Sequences about the whole service, which the account shares.

use fastrand::Rng;
use http::Method;

use super::{Call, pick};

const CALLS: usize = 6;

/// Documents that are set, with the name of what is special about them.
const DOCUMENTS: [(&str, &str); 8] = [
    (
        "",
        "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>false</Delete><Read>true</Read><Write>false</Write><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></Logging></StorageServiceProperties>",
    ),
    (
        "",
        "<StorageServiceProperties><HourMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics></StorageServiceProperties>",
    ),
    (
        "",
        "<StorageServiceProperties><MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></MinuteMetrics></StorageServiceProperties>",
    ),
    (
        "",
        "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a.example</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods><MaxAgeInSeconds>500</MaxAgeInSeconds><ExposedHeaders>x-ms-meta-a</ExposedHeaders><AllowedHeaders>x-ms-meta-b</AllowedHeaders></CorsRule></Cors></StorageServiceProperties>",
    ),
    ("no rules", "<StorageServiceProperties><Cors /></StorageServiceProperties>"),
    (
        "retention of 366 days",
        "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>false</Delete><Read>true</Read><Write>false</Write><RetentionPolicy><Enabled>true</Enabled><Days>366</Days></RetentionPolicy></Logging></StorageServiceProperties>",
    ),
    (
        "six rules",
        "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>1</MaxAgeInSeconds><ExposedHeaders>*</ExposedHeaders><AllowedHeaders>*</AllowedHeaders></CorsRule><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>1</MaxAgeInSeconds><ExposedHeaders>*</ExposedHeaders><AllowedHeaders>*</AllowedHeaders></CorsRule><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>1</MaxAgeInSeconds><ExposedHeaders>*</ExposedHeaders><AllowedHeaders>*</AllowedHeaders></CorsRule><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>1</MaxAgeInSeconds><ExposedHeaders>*</ExposedHeaders><AllowedHeaders>*</AllowedHeaders></CorsRule><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>1</MaxAgeInSeconds><ExposedHeaders>*</ExposedHeaders><AllowedHeaders>*</AllowedHeaders></CorsRule><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>1</MaxAgeInSeconds><ExposedHeaders>*</ExposedHeaders><AllowedHeaders>*</AllowedHeaders></CorsRule></Cors></StorageServiceProperties>",
    ),
    ("broken XML", "<StorageServiceProperties><Logging>"),
];

/// Everything, so that whatever ran before does not matter.
const RESET: &str = "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read><Write>true</Write><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging><HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></HourMetrics><MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics><Cors /></StorageServiceProperties>";

/// The calls of one sequence.
pub fn calls(rng: &mut Rng) -> Vec<Call> {
    let mut calls = vec![set("", RESET)];
    for _ in 0..CALLS {
        calls.push(match rng.u32(..10) {
            0..4 => {
                let (case, document) = *pick(rng, &DOCUMENTS);
                set(case, document)
            }
            4 => {
                Call::new("Get Service Stats", "on the primary", Method::GET, "/?restype=service&comp=stats")
            }
            5 => preflight("http://a.example"),
            6 => preflight("http://nobody.example"),
            _ => Call::new("Get Service Properties", "", Method::GET, "/?restype=service&comp=properties"),
        });
    }
    // The next sequences start from what everyone has.
    calls.push(set("", RESET));
    calls
        .into_iter()
        .map(|call| call.header("x-ms-version", "2020-12-06").header("Accept", "application/xml"))
        .collect()
}

fn set(case: &str, document: &str) -> Call {
    Call::new("Set Service Properties", case, Method::PUT, "/?restype=service&comp=properties")
        .body("application/xml", format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>{document}"))
}

fn preflight(origin: &str) -> Call {
    Call::new("Preflight", origin, Method::OPTIONS, "/something")
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "GET")
        .header("Access-Control-Request-Headers", "x-ms-meta-b")
}
