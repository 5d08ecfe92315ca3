//! Property values as text: what JSON and Atom share.
//!
//! Doubles are written as .NET Framework's "R" format writes them, because that is what the service runs
//! on: 15 significant digits if they read back as the same number, else 17; an exponent from 1E+15 (or 1E+17)
//! up and below 1E-04, with at least two digits.

use std::borrow::Cow;

#[cfg(not(feature = "simd"))]
use base64::{Engine as _, engine::general_purpose::STANDARD};
use tavola_model::{DateTime, EdmType, EdmValue, ErrorCode, Guid, ServiceError};

/// A value that owns what it had to decode.
#[derive(Debug)]
pub enum TextValue<'a> {
    /// Nothing had to be copied.
    Plain(EdmValue<'a>),
    /// Text with its escapes undone.
    Text(Cow<'a, str>),
    /// Decoded base64.
    Bytes(Vec<u8>),
}

impl TextValue<'_> {
    /// The value.
    pub fn as_edm(&self) -> EdmValue<'_> {
        match self {
            Self::Plain(value) => *value,
            Self::Text(text) => EdmValue::String(text),
            Self::Bytes(bytes) => EdmValue::Binary(bytes),
        }
    }
}

/// Reads the text of a value of a known type that is to be stored. `name` is for the message about dates out of
/// range.
pub fn parse<'a>(edm_type: EdmType, text: Cow<'a, str>, name: &str) -> Result<TextValue<'a>, ServiceError> {
    let value = read(edm_type, text).ok_or_else(ServiceError::unreadable_body)?;
    if let TextValue::Plain(EdmValue::DateTime(time)) = value {
        storable(time, name)?;
    }
    Ok(value)
}

/// Reads the text of a value of a known type; `None` if it is none.
pub fn read(edm_type: EdmType, text: Cow<'_, str>) -> Option<TextValue<'_>> {
    let value = match edm_type {
        EdmType::String => return Some(TextValue::Text(text)),
        EdmType::Binary => {
            return read_base64(text.trim()).map(TextValue::Bytes);
        }
        EdmType::Boolean => parse_boolean(text.trim()).map(EdmValue::Boolean),
        EdmType::DateTime => DateTime::parse(text.trim()).map(EdmValue::DateTime),
        EdmType::Double => parse_double(text.trim()).map(EdmValue::Double),
        EdmType::Guid => Guid::parse(text.trim()).map(EdmValue::Guid),
        EdmType::Int32 => text.trim().parse().ok().map(EdmValue::Int32),
        EdmType::Int64 => text.trim().parse().ok().map(EdmValue::Int64),
    };
    value.map(TextValue::Plain)
}

fn storable(time: DateTime, name: &str) -> Result<(), ServiceError> {
    if time >= DateTime::STORABLE_MIN {
        return Ok(());
    }
    let (year, month, day) = time.date();
    let (hour, minute, second, _) = time.time_of_day();
    Err(ServiceError::with_message(
        ErrorCode::OutOfRangeInput,
        format!(
            "The '{name}' parameter of value '{month:02}/{day:02}/{year:04} {hour:02}:{minute:02}:{second:02}' is out of range."
        ),
    ))
}

fn parse_boolean(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        text if text.eq_ignore_ascii_case("true") => Some(true),
        text if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

fn parse_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        // Rust would also read words such as `inf` and `nan`, which the service does not know.
        text if text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E')) => {
            text.parse().ok().filter(|number: &f64| number.is_finite())
        }
        _ => None,
    }
}

/// Writes a finite double without `.0` for whole numbers.
pub fn write_double(number: f64, out: &mut Vec<u8>) {
    debug_assert!(number.is_finite());
    if number == 0.0 {
        // "R" alone would lose the sign; the XML and JSON writers of the service's platform keep it.
        out.extend_from_slice(if number.is_sign_negative() { b"-0" } else { b"0" });
        return;
    }
    let mut buffer = zmij::Buffer::new();
    if let Some(text) = plain_digits(number, buffer.format_finite(number)) {
        return out.extend_from_slice(text.as_bytes());
    }
    write_scientific(number, out);
}

/// The long way: digits and exponent apart, and put together again.
fn write_scientific(number: f64, out: &mut Vec<u8>) {
    let (scientific, precision) = round_trip_digits(number);
    let (mantissa, exponent) = scientific.split_once('e').expect("the e format has an exponent");
    let exponent: i32 = exponent.parse().expect("the e format has a numeric exponent");
    let negative = mantissa.starts_with('-');
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    if negative {
        out.push(b'-');
    }
    let point = exponent + 1;
    if point > precision || point < -3 {
        out.extend_from_slice(&digits.as_bytes()[..1]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits.as_bytes()[1..]);
        }
        out.extend_from_slice(
            format!("E{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()).as_bytes(),
        );
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', usize::try_from(-point).expect("not negative")));
        out.extend_from_slice(digits.as_bytes());
    } else {
        let whole = usize::try_from(point).expect("positive");
        if digits.len() <= whole {
            out.extend_from_slice(digits.as_bytes());
            out.extend(std::iter::repeat_n(b'0', whole - digits.len()));
        } else {
            out.extend_from_slice(&digits.as_bytes()[..whole]);
            out.push(b'.');
            out.extend_from_slice(&digits.as_bytes()[whole..]);
        }
    }
}

/// The shortest text that reads back as the number, where "R" writes the same: neither an exponent nor more than
/// 15 digits.
fn plain_digits(number: f64, shortest: &str) -> Option<&str> {
    let is_in_range = (1e-4..1e15).contains(&number.abs());
    let text = shortest.strip_suffix(".0").unwrap_or(shortest);
    let digits = text.trim_start_matches(['-', '0', '.']);
    let count = digits.len() - usize::from(digits.contains('.'));
    (is_in_range && count <= 15).then_some(text)
}

/// The number in scientific form with the digits that "R" takes, and how many those can be.
///
/// The shortest text that reads back as the number settles it for nearly all: if it has 15 digits or fewer, no
/// other text of 15 digits reads back the same. Only below the normal numbers are doubles so far apart that
/// several do; there the 15 digits nearest to the number are taken, as the service does.
fn round_trip_digits(number: f64) -> (String, i32) {
    let shortest = if number.is_normal() { format!("{number:e}") } else { format!("{number:.14e}") };
    let digits = shortest.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    if digits <= 15 && (number.is_normal() || shortest.parse() == Ok(number)) {
        return (shortest, 15);
    }
    (format!("{number:.16e}"), 17)
}

/// Writes base64 text.
#[cfg(feature = "simd")]
pub fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    base64_simd::STANDARD.encode_append(bytes, out);
}

/// Writes base64 text.
#[cfg(not(feature = "simd"))]
pub fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
}

#[cfg(feature = "simd")]
fn read_base64(text: &str) -> Option<Vec<u8>> {
    base64_simd::STANDARD.decode_to_vec(text).ok()
}

#[cfg(not(feature = "simd"))]
fn read_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn check(number: f64, expected: &str) {
        let mut text = Vec::new();
        write_double(number, &mut text);
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn doubles_are_written_as_the_service_writes_them() {
        check(3.1, "3.1");
        check(5.0, "5");
        check(8_589_934_592.0, "8589934592");
        check(11.0 / 10.0, "1.1");
        check(1.234_567_890_123_46e24, "1.23456789012346E+24");
        check(f64::MAX, "1.7976931348623157E+308");
        check(5e-324, "4.94065645841247E-324");
        check(123_456_789_012_345.12, "123456789012345.12");
        check(0.0001, "0.0001");
        check(0.00001, "1E-05");
        check(1e15, "1E+15");
        check(123_456_789_012_345.0, "123456789012345");
        check(-0.5, "-0.5");
        check(0.0, "0");
        check(-0.0, "-0");
        check(0.1 + 0.2, "0.30000000000000004");
    }

    #[test]
    fn the_quick_way_writes_what_the_long_way_writes() {
        let mut random = 0x9E37_79B9_7F4A_7C15u64;
        for round in 0..200_000u32 {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let number = match round % 4 {
                0 => f64::from(round) / 8.0,
                1 => f64::from(round).mul_add(0.01, -700.0),
                2 => f64::from_bits(random),
                _ => f64::from(u32::try_from(random >> 40).unwrap()) * 1e-9,
            };
            if !number.is_normal() {
                continue;
            }
            let (mut quick, mut long) = (Vec::new(), Vec::new());
            write_double(number, &mut quick);
            write_scientific(number, &mut long);
            assert_eq!(quick, long, "{number:e}");
        }
    }

    #[test]
    fn bytes_of_any_length_read_back_from_their_base64() {
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(700).collect();
        for length in 0..bytes.len() {
            let mut text = b"before ".to_vec();
            write_base64(&bytes[..length], &mut text);
            assert_eq!(STANDARD.decode(&text[7..]).unwrap(), &bytes[..length]);
        }
    }

    #[test]
    fn the_quick_reader_of_base64_takes_and_refuses_what_the_strict_one_does() {
        let mut random = 1u64;
        let mut next = |end: usize| {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            usize::try_from(random >> 33).unwrap() % end
        };
        let spoilers = b"=A+/ \n-_*\x00z";
        for _ in 0..200_000 {
            let bytes: Vec<u8> = (0..next(80)).map(|_| u8::try_from(next(256)).unwrap()).collect();
            let mut text = STANDARD.encode(bytes).into_bytes();
            for _ in 0..next(3) {
                let index = next(text.len() + 1);
                match next(3) {
                    0 => text.truncate(index),
                    1 => text.insert(index, spoilers[next(spoilers.len())]),
                    _ if index < text.len() => text[index] = spoilers[next(spoilers.len())],
                    _ => {}
                }
            }
            let quick = base64_simd::STANDARD.decode_to_vec(&text).ok();
            assert_eq!(quick, STANDARD.decode(&text).ok(), "{:?}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn typed_text_is_read_by_its_type() {
        let read = |edm_type, text: &'static str| {
            parse(edm_type, Cow::Borrowed(text), "p").map(|v| format!("{:?}", v.as_edm())).map_err(|e| e.code)
        };
        assert_eq!(read(EdmType::Int32, "12345"), Ok("Int32(12345)".into()));
        assert_eq!(read(EdmType::Int32, "2147483648"), Err(ErrorCode::InvalidInput));
        assert_eq!(read(EdmType::Int64, "-9223372036854775808"), Ok("Int64(-9223372036854775808)".into()));
        assert_eq!(read(EdmType::Boolean, "False"), Ok("Boolean(false)".into()));
        assert_eq!(read(EdmType::Boolean, "yes"), Err(ErrorCode::InvalidInput));
        assert_eq!(read(EdmType::Double, "-INF"), Ok("Double(-inf)".into()));
        assert_eq!(read(EdmType::Double, "nan"), Err(ErrorCode::InvalidInput));
        assert_eq!(read(EdmType::Double, "1e999"), Err(ErrorCode::InvalidInput));
        assert_eq!(read(EdmType::Binary, "AAE="), Ok("Binary([0, 1])".into()));
        assert_eq!(read(EdmType::Binary, "A"), Err(ErrorCode::InvalidInput));
        assert_eq!(read(EdmType::DateTime, "1600-12-31T23:59:59Z"), Err(ErrorCode::OutOfRangeInput));
        assert_eq!(read(EdmType::DateTime, "yesterday"), Err(ErrorCode::InvalidInput));
        assert_eq!(read(EdmType::Guid, "x"), Err(ErrorCode::InvalidInput));
    }
}
