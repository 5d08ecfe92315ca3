//! Points in time, in the unit of the service: 100 nanoseconds.
//!
//! A `DateTime` is the number of 100 ns ticks since 0001-01-01T00:00:00Z. The same number is an entity's
//! version, its Timestamp and its ETag, so a time is never rounded on its way through the server.
//!
//! The calendar is two small functions, compared with the `time` crate for every day: that crate and the four below it
//! would be a tenth of what a client builds. Texts are read and written here, because no crate has the forms of the
//! service: seven digits of a fraction with zeros trimmed, `%3A` in ETags, HTTP dates from year 1 on with a day of one digit.

use std::fmt;

/// A UTC time with a resolution of 100 ns, from year 1 to year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(u64);

const TICKS_PER_SECOND: u64 = 10_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
/// Days from 0001-01-01 to 1970-01-01.
const UNIX_EPOCH_DAYS: u64 = 719_162;
/// Days from 0000-03-01, where a cycle of the calendar begins, to 0001-01-01.
const CYCLE_DAYS: u64 = 306;

impl DateTime {
    /// 0001-01-01T00:00:00Z.
    pub const MIN: DateTime = DateTime(0);
    /// 9999-12-31T23:59:59.9999999Z.
    pub const MAX: DateTime = DateTime(3_155_378_975_999_999_999);
    /// The earliest value the service stores, 1601-01-01T00:00:00Z.
    pub const STORABLE_MIN: DateTime = DateTime(504_911_232_000_000_000);

    /// The time with this number of 100 ns ticks since year 1; `None` beyond year 9999.
    pub fn from_ticks(ticks: u64) -> Option<Self> {
        (ticks <= Self::MAX.0).then_some(Self(ticks))
    }

    /// 100 ns ticks since 0001-01-01.
    pub fn ticks(self) -> u64 {
        self.0
    }

    /// The time so many 100 ns ticks after the Unix epoch.
    pub fn from_unix_ticks(ticks: u64) -> Self {
        Self((UNIX_EPOCH_DAYS * SECONDS_PER_DAY * TICKS_PER_SECOND).saturating_add(ticks).min(Self::MAX.0))
    }

    /// Whole seconds since the Unix epoch; negative before it.
    pub fn unix_seconds(self) -> i64 {
        let seconds = i64::try_from(self.0 / TICKS_PER_SECOND).expect("year 9999 fits");
        seconds - i64::try_from(UNIX_EPOCH_DAYS * SECONDS_PER_DAY).expect("a constant that fits")
    }

    /// The time so many seconds later, or `None` beyond year 9999.
    pub fn plus_seconds(self, seconds: u64) -> Option<Self> {
        seconds.checked_mul(TICKS_PER_SECOND).and_then(|t| t.checked_add(self.0)).and_then(Self::from_ticks)
    }

    /// How far two times are apart, in whole seconds.
    pub fn seconds_between(self, other: Self) -> u64 {
        self.0.abs_diff(other.0) / TICKS_PER_SECOND
    }

    /// From calendar parts; `None` if they name no time between year 1 and 9999.
    pub fn from_parts(
        (year, month, day): (u32, u32, u32),
        (hour, minute, second): (u32, u32, u32),
        fraction_ticks: u32,
    ) -> Option<Self> {
        let is_time = hour < 24 && minute < 60 && second < 60 && u64::from(fraction_ticks) < TICKS_PER_SECOND;
        if !is_time {
            return None;
        }
        let days = days_of_date(year, month, day)?;
        let seconds = days * SECONDS_PER_DAY + u64::from(hour * 3600 + minute * 60 + second);
        Some(Self(seconds * TICKS_PER_SECOND + u64::from(fraction_ticks)))
    }

    /// Year, month and day.
    pub fn date(self) -> (u32, u32, u32) {
        date_of_days(self.0 / (SECONDS_PER_DAY * TICKS_PER_SECOND))
    }

    /// Hour, minute, second and 100 ns ticks of the second.
    pub fn time_of_day(self) -> (u32, u32, u32, u32) {
        let second_of_day = narrow(self.0 / TICKS_PER_SECOND % SECONDS_PER_DAY);
        (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60, narrow(self.0 % TICKS_PER_SECOND))
    }

    /// Day of the week, Sunday = 0.
    pub fn weekday(self) -> usize {
        // By the number of the day: a third of the instructions of an HTTP date were spent on asking the calendar again.
        usize::try_from((self.0 / (SECONDS_PER_DAY * TICKS_PER_SECOND) + 1) % 7).expect("less than 7")
    }

    /// Reads `yyyy-MM-dd`, optionally followed by `Thh:mm[:ss[.fffffff]]` and `Z` or `±hh:mm`. A time without
    /// a zone is taken as UTC. Digits of the fraction beyond the seventh are dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.as_bytes();
        let year = take_digits(&mut rest, 4)?;
        take_byte(&mut rest, b'-')?;
        let month = take_digits(&mut rest, 2)?;
        take_byte(&mut rest, b'-')?;
        let day = take_digits(&mut rest, 2)?;
        if rest.is_empty() {
            return Self::from_parts((year, month, day), (0, 0, 0), 0);
        }
        take_byte(&mut rest, b'T').or_else(|| take_byte(&mut rest, b' '))?;
        let hour = take_digits(&mut rest, 2)?;
        take_byte(&mut rest, b':')?;
        let minute = take_digits(&mut rest, 2)?;
        let (mut second, mut fraction) = (0, 0);
        if take_byte(&mut rest, b':').is_some() {
            second = take_digits(&mut rest, 2)?;
            if take_byte(&mut rest, b'.').is_some() {
                fraction = take_fraction(&mut rest)?;
            }
        }
        let local = Self::from_parts((year, month, day), (hour, minute, second), fraction)?;
        match rest.first() {
            None => Some(local),
            Some(b'Z' | b'z') => (rest.len() == 1).then_some(local),
            Some(sign @ (b'+' | b'-')) => {
                let mut zone = &rest[1..];
                let zone_hour = take_digits(&mut zone, 2)?;
                let _ = take_byte(&mut zone, b':');
                let zone_minute = take_digits(&mut zone, 2)?;
                if !zone.is_empty() || zone_hour > 14 || zone_minute > 59 {
                    return None;
                }
                let shift = u64::from(zone_hour * 60 + zone_minute) * 60 * TICKS_PER_SECOND;
                let ticks = if *sign == b'+' { local.0.checked_sub(shift)? } else { local.0 + shift };
                Self::from_ticks(ticks)
            }
            Some(_) => None,
        }
    }

    /// Reads an RFC 1123 date such as `Sun, 06 Nov 1994 08:49:37 GMT`; the day may have one digit.
    pub fn parse_rfc1123(text: &str) -> Option<Self> {
        let mut rest = text.trim().as_bytes();
        take_name(&mut rest, &WEEKDAYS)?;
        take_byte(&mut rest, b',')?;
        take_byte(&mut rest, b' ')?;
        let day_digits = if rest.get(1) == Some(&b' ') { 1 } else { 2 };
        let day = take_digits(&mut rest, day_digits)?;
        take_byte(&mut rest, b' ')?;
        let month = take_name(&mut rest, &MONTHS)?;
        take_byte(&mut rest, b' ')?;
        let year = take_digits(&mut rest, 4)?;
        take_byte(&mut rest, b' ')?;
        let hour = take_digits(&mut rest, 2)?;
        take_byte(&mut rest, b':')?;
        let minute = take_digits(&mut rest, 2)?;
        take_byte(&mut rest, b':')?;
        let second = take_digits(&mut rest, 2)?;
        if rest != b" GMT" && rest != b" UTC" {
            return None;
        }
        Self::from_parts((year, u32::try_from(month).ok()? + 1, day), (hour, minute, second), 0)
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn to_rfc1123(self) -> String {
        let mut out = String::with_capacity(29);
        self.push_rfc1123(&mut out);
        out
    }

    /// Writes the same behind a text.
    pub fn push_rfc1123(self, out: &mut String) {
        // Pages of blobs are full of these, so the text is put together in one piece of fixed length.
        let (year, month, day) = self.date();
        let (hour, minute, second, _) = self.time_of_day();
        let mut text = *b"Www, dd Mmm yyyy hh:mm:ss GMT";
        text[..3].copy_from_slice(WEEKDAYS[self.weekday()].as_bytes());
        text[8..11].copy_from_slice(MONTHS[month as usize - 1].as_bytes());
        let pairs = [(5, day), (12, year / 100), (14, year % 100), (17, hour), (20, minute), (23, second)];
        for (at, value) in pairs {
            text[at..at + 2].copy_from_slice(&two_digits(value));
        }
        out.push_str(std::str::from_utf8(&text).expect("only ASCII is written"));
    }

    /// The text with all seven digits of the fraction, as in error messages and access policies.
    pub fn to_text_7_digits(self) -> String {
        let mut text = self.whole_seconds_text(':');
        let fraction = self.time_of_day().3;
        text.push_str(&format!(".{fraction:07}Z"));
        text
    }

    /// Writes `yyyy-MM-ddThh:mm:ss[.f{1,7}]Z` with the given text between the parts of the clock (`:` for a
    /// Timestamp, `%3A` for an ETag); trailing zeros of the fraction are left out, as the service does.
    pub fn write_trimmed(self, colon: &str, out: &mut Vec<u8>) {
        // Pages are full of these, so the text is put together in one piece of fixed length.
        let (year, month, day) = self.date();
        let (hour, minute, second, fraction) = self.time_of_day();
        let mut text = *b"yyyy-MM-ddThh:mm:ss.fffffffZ";
        let pairs =
            [(0, year / 100), (2, year % 100), (5, month), (8, day), (11, hour), (14, minute), (17, second)];
        for (at, value) in pairs {
            text[at..at + 2].copy_from_slice(&two_digits(value));
        }
        for (at, value) in [(20, fraction / 100_000), (22, fraction / 1000 % 100), (24, fraction / 10 % 100)]
        {
            text[at..at + 2].copy_from_slice(&two_digits(value));
        }
        text[26] = two_digits(fraction % 10)[1];
        let end = match text[20..27].iter().rposition(|digit| *digit != b'0') {
            Some(last) => 21 + last,
            None => 19,
        };
        text[end] = b'Z';
        if colon == ":" {
            return out.extend_from_slice(&text[..=end]);
        }
        out.extend_from_slice(&text[..13]);
        out.extend_from_slice(colon.as_bytes());
        out.extend_from_slice(&text[14..16]);
        out.extend_from_slice(colon.as_bytes());
        out.extend_from_slice(&text[17..=end]);
    }

    fn whole_seconds_text(self, colon: char) -> String {
        let (year, month, day) = self.date();
        let (hour, minute, second, _) = self.time_of_day();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}{colon}{minute:02}{colon}{second:02}")
    }
}

/// The trimmed text: `2021-07-19T14:37:12.6489662Z`.
impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(28);
        self.write_trimmed(":", &mut text);
        f.write_str(std::str::from_utf8(&text).expect("only ASCII is written"))
    }
}

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Days from 0001-01-01 to a date; `None` if there is no such date between year 1 and 9999. Years begin with March, so
/// that a leap day is the last of its year.
fn days_of_date(year: u32, month: u32, day: u32) -> Option<u64> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=last).contains(&day) {
        return None;
    }
    let years = u64::from(if month > 2 { year } else { year - 1 });
    let months = u64::from((month + 9) % 12);
    let leap_days = years / 4 - years / 100 + years / 400;
    Some(365 * years + leap_days + (153 * months + 2) / 5 + u64::from(day) - 1 - CYCLE_DAYS)
}

/// The date so many days after 0001-01-01.
fn date_of_days(days: u64) -> (u32, u32, u32) {
    const CYCLE: u64 = 146_097;
    let (cycles, day) = ((days + CYCLE_DAYS) / CYCLE, (days + CYCLE_DAYS) % CYCLE);
    let year = (day - day / 1460 + day / 36_524 - day / (CYCLE - 1)) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let is_next = month >= 10;
    let month = if is_next { month - 9 } else { month + 3 };
    (narrow(400 * cycles + year + u64::from(is_next)), narrow(month), narrow(day_of_month))
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).expect("calendar parts are small")
}

fn take_byte(rest: &mut &[u8], byte: u8) -> Option<()> {
    (rest.first() == Some(&byte)).then(|| *rest = &rest[1..])
}

fn take_digits(rest: &mut &[u8], count: usize) -> Option<u32> {
    let digits = rest.get(..count)?;
    let mut value = 0;
    for digit in digits {
        value = value * 10 + u32::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    *rest = &rest[count..];
    Some(value)
}

fn take_fraction(rest: &mut &[u8]) -> Option<u32> {
    let count = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let kept = count.min(7);
    let mut digits = &rest[..kept];
    let value = take_digits(&mut digits, kept)?;
    *rest = &rest[count..];
    Some(value * 10u32.pow(7 - u32::try_from(kept).ok()?))
}

/// Takes one of some names of three letters; gives its place among them.
fn take_name(rest: &mut &[u8], names: &[&str]) -> Option<usize> {
    let (name, after) = rest.split_at_checked(3)?;
    *rest = after;
    names.iter().position(|known| known.as_bytes() == name)
}

/// The digits of every number below 100.
const TWO_DIGITS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

/// A number below 100.
fn two_digits(value: u32) -> [u8; 2] {
    TWO_DIGITS[value as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_is_that_of_the_calendar() {
        let mut date = time::Date::from_calendar_date(1, time::Month::January, 1).unwrap();
        for days in 0u64.. {
            let (year, month, day) = date.to_calendar_date();
            let parts = (year.unsigned_abs(), u32::from(u8::from(month)), u32::from(day));
            assert_eq!((date_of_days(days), days_of_date(parts.0, parts.1, parts.2)), (parts, Some(days)));
            match date.next_day() {
                Some(next) => date = next,
                None => break,
            }
        }
        assert_eq!(date_of_days(DateTime::MAX.0 / (SECONDS_PER_DAY * TICKS_PER_SECOND)), (9999, 12, 31));
        for (year, month, day) in
            [(0, 1, 1), (10_000, 1, 1), (1900, 2, 29), (2026, 13, 1), (2026, 4, 31), (2026, 1, 0)]
        {
            assert_eq!(days_of_date(year, month, day), None);
        }
    }

    fn check(text: &str, expected: &str) {
        let shown = DateTime::parse(text).map(|time| time.to_string());
        assert_eq!(shown.as_deref().unwrap_or("refused"), expected, "{text}");
    }

    #[test]
    fn iso_text_is_read_and_written_with_a_trimmed_fraction() {
        check("2021-07-19T14:37:12.6489662Z", "2021-07-19T14:37:12.6489662Z");
        check("2021-07-19T14:37:12.6480000Z", "2021-07-19T14:37:12.648Z");
        check("2021-07-19T14:37:12.000Z", "2021-07-19T14:37:12Z");
        check("2021-07-19", "2021-07-19T00:00:00Z");
        check("2021-07-19T14:37", "2021-07-19T14:37:00Z");
        check("2021-07-19T14:37:12.123456789Z", "2021-07-19T14:37:12.1234567Z");
        check("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z");
        check("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z");
        check("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z");
    }

    #[test]
    fn offsets_are_converted_to_utc() {
        check("2021-07-19T14:37:12+02:00", "2021-07-19T12:37:12Z");
        check("2021-12-31T23:30:00-01:00", "2022-01-01T00:30:00Z");
    }

    #[test]
    fn text_that_names_no_time_is_refused() {
        for text in [
            "",
            "2021",
            "2021-13-01",
            "2021-02-29",
            "2021-07-19T24:00:00Z",
            "2021-07-19T14:37:12.Z",
            "2021-07-19T14:37:12ZZ",
            "2021-07-19T14:37:12+15:00",
            "0000-01-01",
            "0001-01-01T00:00:00+01:00",
        ] {
            check(text, "refused");
        }
    }

    #[test]
    fn every_day_of_four_centuries_round_trips_through_the_calendar() {
        for day in 0..(146_097 * 2) {
            let time = DateTime::from_ticks(day * SECONDS_PER_DAY * TICKS_PER_SECOND).unwrap();
            assert_eq!(DateTime::from_parts(time.date(), (0, 0, 0), 0), Some(time));
        }
    }

    #[test]
    fn rfc_1123_dates_round_trip() {
        let text = "Sun, 06 Nov 1994 08:49:37 GMT";
        let time = DateTime::parse_rfc1123(text).unwrap();
        assert_eq!(time.to_rfc1123(), text);
        assert_eq!(time.unix_seconds(), 784_111_777);
        for bad in
            ["", "06 Nov 1994 08:49:37 GMT", "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT"]
        {
            assert_eq!(DateTime::parse_rfc1123(bad), None, "{bad}");
        }
    }
}
