//! What a blob is made of, as requests and answers speak of it: type, headers, sums, ranges, tiers.

use crate::{DateTime, ErrorCode};

/// The type of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum BlobType {
    Block,
    Append,
    Page,
}

impl BlobType {
    /// As headers and listings have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "BlockBlob",
            Self::Append => "AppendBlob",
            Self::Page => "PageBlob",
        }
    }

    /// Reads the text of the header.
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::Block, Self::Append, Self::Page];
        all.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text))
    }
}

/// An MD5 sum.
pub type Md5 = [u8; 16];
/// A CRC-64/NVME sum.
pub type Crc64 = u64;

/// The sums that a client sends with a body, which must be those of what arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferSums {
    /// `Content-MD5`.
    pub md5: Option<Md5>,
    /// `x-ms-content-crc64`.
    pub crc64: Option<Crc64>,
    /// The answer tells the MD5 of what arrives although the client has sent none, as versions before CRC64 do.
    pub tells_md5: bool,
}

/// The headers that a blob keeps for whoever reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "HTTP's own words")]
pub struct BlobHeaders {
    pub content_type: Option<String>,
    pub content_encoding: Option<String>,
    pub content_language: Option<String>,
    pub cache_control: Option<String>,
    pub content_disposition: Option<String>,
    /// The sum of the whole content, as it was sent or counted.
    pub content_md5: Option<Md5>,
}

impl BlobHeaders {
    /// These, with those of another set where it has some. The sum is always that of the content.
    #[must_use]
    pub fn overridden_by(self, instead: &Self) -> Self {
        let or = |own: Option<String>, instead: &Option<String>| instead.clone().or(own);
        Self {
            content_type: or(self.content_type, &instead.content_type),
            content_encoding: or(self.content_encoding, &instead.content_encoding),
            content_language: or(self.content_language, &instead.content_language),
            cache_control: or(self.cache_control, &instead.cache_control),
            content_disposition: or(self.content_disposition, &instead.content_disposition),
            content_md5: self.content_md5,
        }
    }
}

/// Bytes from `first` on, to `last` and with it or to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte; `None` for the end. Never before the first.
    pub last: Option<u64>,
}

impl ByteRange {
    /// How many bytes it has, unless it goes to the end or has more than can be counted.
    pub fn length(self) -> Option<u64> {
        self.last?.checked_sub(self.first)?.checked_add(1)
    }
}

macro_rules! tiers {
    ($($tier:ident)+) => {
        /// A tier: what a blob costs elsewhere. Kept and shown here; what is archived cannot be read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the service's own words")]
        pub enum AccessTier { $($tier,)+ }

        impl AccessTier {
            /// All tiers.
            pub const ALL: &'static [Self] = &[$(Self::$tier,)+];

            /// As headers and listings have it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$tier => stringify!($tier),)+ }
            }
        }
    };
}

tiers! { Hot Cool Cold Archive Premium P4 P6 P10 P15 P20 P30 P40 P50 P60 P70 P80 }

impl AccessTier {
    /// Reads the text of the header.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|tier| tier.as_str().eq_ignore_ascii_case(text))
    }

    /// Refuses a tier that a new blob of this type cannot have. Page blobs have tiers in premium accounts only, which none
    /// of ours is.
    pub fn check_new(self, kind: BlobType) -> Result<(), ErrorCode> {
        match kind {
            BlobType::Append | BlobType::Page => Err(ErrorCode::AccessTierNotSupportedForBlobType),
            BlobType::Block if self.is_premium() => Err(ErrorCode::InvalidBlobTier),
            BlobType::Block => Ok(()),
        }
    }

    /// Whether it is for page blobs, of which it fixes the speed.
    pub fn is_premium(self) -> bool {
        !matches!(self, Self::Hot | Self::Cool | Self::Cold | Self::Archive)
    }
}

/// How soon a blob is to come back from the archive (`x-ms-rehydrate-priority`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum RehydratePriority {
    #[default]
    Standard,
    High,
}

impl RehydratePriority {
    /// As headers and listings have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "Standard",
            Self::High => "High",
        }
    }
}

/// A tier as properties show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierShown {
    /// Which.
    pub tier: AccessTier,
    /// Nobody has set it: it is that of the account.
    pub is_inferred: bool,
    /// When it was set last.
    pub changed: Option<DateTime>,
    /// The blob is on its way out of the archive into this tier.
    pub rehydrate_to: Option<(AccessTier, RehydratePriority)>,
}

/// An encoded block id: the text that the client sent, in base64.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(Box<[u8]>);

impl BlockId {
    /// Accepts the decoded bytes of an id: 1 to 64.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (1..=super::BLOCK_ID_BYTES_MAX).contains(&bytes.len()).then(|| Self(bytes.into()))
    }

    /// The decoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Where Put Block List finds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum BlockSource {
    Committed,
    Uncommitted,
    Latest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_is_too_long_to_count_has_no_length() {
        let length = |first, last| ByteRange { first, last }.length();
        assert_eq!(length(0, Some(511)), Some(512));
        assert_eq!(length(1, Some(u64::MAX)), Some(u64::MAX));
        assert_eq!(length(0, Some(u64::MAX)), None);
        assert_eq!(length(0, None), None);
    }
}
