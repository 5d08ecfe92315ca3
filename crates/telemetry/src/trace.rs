//! Where a request stands in a trace of its client: the `traceparent` header of the W3C
//! (<https://www.w3.org/TR/trace-context/#traceparent-header>).

/// The span of the client that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: [u8; 16],
    /// The span within it.
    pub span_id: [u8; 8],
    /// Whether the client keeps the trace.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Reads the header. One that is not well formed counts as none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Later versions may have more parts; this one has not.
        if version == "ff" || version.len() != 2 || version == "00" && parts.next().is_some() {
            return None;
        }
        let trace_id = bytes::<16>(trace).filter(|id| *id != [0; 16])?;
        let span_id = bytes::<8>(span).filter(|id| *id != [0; 8])?;
        let [flags] = bytes::<1>(flags)?;
        bytes::<1>(version)?;
        Some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }
}

/// Lower-case hexadecimal digits, two for each byte.
fn bytes<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * LENGTH || !text.bytes().all(is_digit) {
        return None;
    }
    let mut bytes = [0; LENGTH];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_well_formed_header_is_read() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = TraceParent::parse(text).unwrap();
        assert_eq!((parent.trace_id[..2].to_vec(), parent.span_id[7]), (vec![0x4b, 0xf9], 0xb7));
        assert!(parent.is_sampled);
        assert!(!TraceParent::parse(&text.replace("-01", "-00")).unwrap().is_sampled);
        assert!(TraceParent::parse(&(text.replace("00-4b", "01-4b") + "-more")).is_some(), "a later version");
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad}");
        }
    }
}
