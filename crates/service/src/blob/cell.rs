//! A cell: 128 pages of a page blob, and where the bytes of those that hold something are.
//!
//! ```text
//! u8 version = 1 | list of fragments: u8 first page | u8 pages - 1 | u64 offset within the data | data
//! ```
//!
//! Invariant: fragments are in order and do not overlap.

use std::ops::Range;

use bytes::Bytes;
use tavola_engine::ContentId;
use tavola_model::PAGE_BYTES;

use super::pieces::Data;
use crate::codec::{Reader, put_list};

const VERSION: u8 = 1;
/// Pages of a cell.
pub(crate) const CELL_PAGES: u64 = 128;
/// Bytes of a cell.
pub(crate) const CELL_BYTES: u64 = CELL_PAGES * PAGE_BYTES;

/// Pages of a cell that hold something.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fragment {
    /// Its first page within the cell.
    first: u64,
    pages: u64,
    /// Where its bytes begin within the data.
    offset: u64,
    data: Data,
}

impl Fragment {
    fn end(&self) -> u64 {
        self.first + self.pages
    }

    /// The part of it that lies within these pages.
    fn within(&self, pages: Range<u64>) -> Option<Self> {
        let (first, end) = (self.first.max(pages.start), self.end().min(pages.end));
        (first < end).then(|| {
            let offset = self.offset + (first - self.first) * PAGE_BYTES;
            self.with(first, end - first, offset)
        })
    }

    /// Bytes that are here are cut, so that what was overwritten is not kept.
    fn with(&self, first: u64, pages: u64, offset: u64) -> Self {
        match &self.data {
            Data::Content(content) => Self { first, pages, offset, data: Data::Content(*content) },
            Data::Inline(bytes) => {
                let at = usize::try_from(offset).expect("a row is small");
                let length = usize::try_from(pages * PAGE_BYTES).expect("a cell is small");
                let bytes = Bytes::copy_from_slice(&bytes[at..at + length]);
                Self { first, pages, offset: 0, data: Data::Inline(bytes) }
            }
        }
    }
}

/// The pages of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    fragments: Vec<Fragment>,
}

impl Cell {
    /// Puts bytes in the location of pages, or clears them.
    pub fn write(&mut self, pages: Range<u64>, data: Option<(&Data, u64)>) {
        let mut fragments = Vec::with_capacity(self.fragments.len() + 2);
        for fragment in &self.fragments {
            fragments.extend(fragment.within(0..pages.start));
            fragments.extend(fragment.within(pages.end..CELL_PAGES));
        }
        if let Some((data, offset)) = data {
            let whole =
                Fragment { first: pages.start, pages: pages.end - pages.start, offset, data: data.clone() };
            fragments.extend(whole.within(pages));
        }
        fragments.sort_by_key(|fragment| fragment.first);
        self.fragments = fragments;
    }

    /// Clears all pages but the first ones.
    pub fn cut(&mut self, pages: u64) {
        if pages < CELL_PAGES {
            self.write(pages..CELL_PAGES, None);
        }
    }

    /// The contents that it names.
    pub fn contents(&self) -> impl Iterator<Item = ContentId> + '_ {
        self.fragments.iter().filter_map(|fragment| fragment.data.content())
    }

    /// The contents that it names, each with the cells that may name it too. A content was put at one location of the blob,
    /// so this is where all of its pages are.
    pub fn placed_contents(&self, cell: u64) -> Vec<(ContentId, Range<u64>)> {
        let location = |fragment: &Fragment| {
            let Data::Content(content) = &fragment.data else { return None };
            let at = (cell * CELL_PAGES + fragment.first) * PAGE_BYTES - fragment.offset;
            Some((content.id, at / CELL_BYTES..(at + content.length).div_ceil(CELL_BYTES)))
        };
        self.fragments.iter().filter_map(location).collect()
    }

    /// The bytes of these pages: of each run whether it holds something, and how many pages it is long.
    pub fn runs(&self, pages: Range<u64>) -> Vec<(Option<(Data, u64)>, u64)> {
        let mut runs = Vec::new();
        let mut at = pages.start;
        for fragment in self.fragments.iter().filter_map(|fragment| fragment.within(pages.clone())) {
            if at < fragment.first {
                runs.push((None, fragment.first - at));
            }
            at = fragment.end();
            runs.push((Some((fragment.data, fragment.offset)), fragment.pages));
        }
        if at < pages.end {
            runs.push((None, pages.end - at));
        }
        runs
    }

    /// The same cell with other data in the location of each.
    pub fn map(&self, mut replace: impl FnMut(&Data) -> Data) -> Self {
        let fragments = self.fragments.iter();
        let fragments = fragments
            .map(|fragment| Fragment { data: replace(&fragment.data), ..fragment.clone() })
            .collect();
        Self { fragments }
    }

    /// Whether no page holds anything.
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The data that it names.
    pub fn data(&self) -> impl Iterator<Item = &Data> {
        self.fragments.iter().map(|fragment| &fragment.data)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let byte = |number: u64| u8::try_from(number).expect("a cell has few pages");
        put_list(&mut out, &self.fragments, |out, fragment| {
            out.extend([byte(fragment.first), byte(fragment.pages - 1)]);
            out.extend_from_slice(&fragment.offset.to_le_bytes());
            Data::put(out, &fragment.data);
        });
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::of_version(bytes, VERSION)?;
        let fragments = reader.list(|reader| {
            let [first, pages]: [u8; 2] = reader.array()?;
            let (first, pages) = (u64::from(first), u64::from(pages) + 1);
            let (offset, data) = (reader.u64()?, Data::read(reader)?);
            let is_within = first + pages <= CELL_PAGES
                && offset.checked_add(pages * PAGE_BYTES).is_some_and(|end| end <= data.length());
            is_within.then_some(Fragment { first, pages, offset, data })
        })?;
        let in_order = fragments.windows(2).all(|pair| pair[0].end() <= pair[1].first);
        (in_order && reader.is_done()).then_some(Self { fragments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::fixture::{bytes, hex};

    fn pages(letter: u8, count: usize) -> Data {
        Data::Inline(vec![letter; count * 512].into())
    }

    fn shown(cell: &Cell) -> String {
        let runs = cell.runs(0..CELL_PAGES);
        let text = runs.iter().map(|(data, pages)| match data {
            None => format!("-{pages} "),
            Some((Data::Inline(bytes), offset)) => {
                let at = usize::try_from(*offset).unwrap();
                format!("{}{pages} ", char::from(bytes[at]))
            }
            Some((Data::Content(_), offset)) => format!("content@{offset}x{pages} "),
        });
        text.collect()
    }

    #[test]
    fn later_pages_replace_earlier_ones_and_what_is_cleared_holds_nothing() {
        let mut cell = Cell::default();
        assert_eq!(shown(&cell), "-128 ");
        cell.write(0..10, Some((&pages(b'a', 10), 0)));
        cell.write(4..6, Some((&pages(b'b', 2), 0)));
        assert_eq!(shown(&cell), "a4 b2 a4 -118 ");
        cell.write(5..8, None);
        assert_eq!(shown(&cell), "a4 b1 -3 a2 -118 ");
        cell.write(120..128, Some((&pages(b'c', 8), 0)));
        assert_eq!(shown(&cell), "a4 b1 -3 a2 -110 c8 ");
        assert_eq!(Cell::decode(&cell.encode()), Some(cell.clone()));
        cell.write(0..128, None);
        assert!(cell.is_empty());
    }

    #[test]
    fn a_content_knows_the_cells_that_may_name_it() {
        let content = tavola_engine::Content { id: ContentId([1; 16]), length: 3 * CELL_BYTES };
        let mut cell = Cell::default();
        // It was put at the last page of cell 4, and this is cell 5.
        cell.write(10..20, Some((&Data::Content(content), 11 * PAGE_BYTES)));
        assert_eq!(cell.placed_contents(5), vec![(content.id, 4..8)]);
        cell.write(15..16, None);
        assert_eq!(shown(&cell), "-10 content@5632x5 -1 content@8704x4 -108 ");
    }

    #[test]
    fn a_cell_keeps_its_layout() {
        let content = tavola_engine::Content { id: ContentId([3; 16]), length: 5000 };
        let mut cell = Cell::default();
        cell.write(3..5, Some((&Data::Content(content), 1024)));
        cell.write(0..1, Some((&pages(b'a', 1), 0)));
        let page = "61".repeat(512);
        let fixture = format!(
            "0102000000000000000000000000000000020000{page}\
             0301000400000000000001030303030303030303030303030303038813000000000000"
        );
        assert_eq!(hex(&cell.encode()), fixture);
        assert_eq!(Cell::decode(&bytes(&fixture)), Some(cell));
        assert_eq!((CELL_PAGES, CELL_BYTES), (128, 65_536), "which cell has a page");
    }

    #[test]
    fn cut_cells_are_refused() {
        let mut cell = Cell::default();
        cell.write(3..5, Some((&pages(b'a', 2), 0)));
        let bytes = cell.encode();
        for len in 0..bytes.len() {
            assert_eq!(Cell::decode(&bytes[..len]), None, "{len}");
        }
    }
}
