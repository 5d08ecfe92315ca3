//! Listings: how long a page takes, and that it takes no longer where there are more blobs.
//!
//! Both containers are filled by the service in this process, which takes a fraction of the time of as many requests,
//! and then served by a server of their own.

use std::sync::Arc;
use std::time::Duration;

use crate::AnyError;
use crate::blob_fill::{BLOB_BYTES, Filled, fill_in_process};
use crate::blob_lines::{AZURITE, TAVOLA};
use crate::blob_requests::Container;
use crate::blobs::BlobStage;
use crate::compare::{Contestant, Range, Series, take_turns};
use crate::load::{Load, run};
use crate::report::Bound;
use crate::tavola::{Tavola, send};
use crate::work::Source;

const LIST_CONNECTIONS: usize = 4;
const PAGE_BLOBS: u64 = 5_000;
const SMALL_LIST_BLOBS: u64 = 10_000;

impl BlobStage {
    /// Pages of 5,000 in a small and a large container, anywhere in each.
    pub fn run_listing(&mut self, only: &str) -> Result<(), AnyError> {
        const LINE: &str = "blob list page of 5,000";
        if !LINE.contains(only) {
            return Ok(());
        }
        let large = self.plan.listed_blobs;
        let data = self.folder.path().join("listed");
        let counts = [SMALL_LIST_BLOBS, large];
        let filled = counts.map(|count| Filled { container: format!("list{count}"), count });
        let rate = fill_in_process(&data, &filled)?;
        self.report.note(format!("blobs of {BLOB_BYTES} bytes put in this process: {rate:.0}/s"));
        let server = Tavola::start(&self.cores, &data)?;
        let mut sides = Vec::new();
        for Filled { container, count } in filled {
            sides.push((TAVOLA, Container::new(server.blob_target(), &container)?, count));
        }
        if let Some(azurite) = &self.azurite {
            let container = self.container(azurite.target(), "list")?;
            self.fill_container(&container, PAGE_BLOBS, BLOB_BYTES)?;
            sides.push((AZURITE, container, PAGE_BLOBS));
        }
        let stage = &*self;
        let load = Load::closed(LIST_CONNECTIONS, stage.plan.period.max(Duration::from_secs(1)));
        let mut contestants = Vec::new();
        for (name, container, count) in &sides {
            let source = stage.full_pages(container, *count)?;
            // Both containers are on the one server, which goes on.
            let process_id = (*name == AZURITE).then_some(container.target.process_id);
            let round = Box::new(move || run(&stage.cores, &container.target, load, &source));
            contestants.push(Contestant { name, process_id, round });
        }
        let mut series = take_turns(stage.plan.rounds, contestants)?;
        let azurite = (series.len() > 2).then(|| series.remove(2));
        let [small, many] = series.as_slice() else { return Err("two sizes are listed".into()) };
        let range = Range::of_ratios(&many.rates(), &small.rates());
        let of_cpu = Range::of_ratios(&small.cpu_micros(), &many.cpu_micros());
        // The server is busy with one page or another all the time.
        let millis = |series: &Series| -> Vec<f64> { series.rates().iter().map(|rate| 1e3 / rate).collect() };
        let pages = [millis(small), millis(many)];
        for (millis, count) in pages.iter().zip([SMALL_LIST_BLOBS, large]) {
            if let Some(Range { median, .. }) = Range::of(millis) {
                let entry = median * 1e3 / PAGE_BLOBS as f64;
                self.report.note(format!("{LINE} of {count}: {median:.1} ms a page, {entry:.2} µs an entry"));
            }
        }
        let over_azurite = azurite.as_ref().and_then(|one| Range::of_ratios(&small.rates(), &one.rates()));
        for (one, count) in series.into_iter().zip([SMALL_LIST_BLOBS, large]) {
            self.report.add_series(&format!("{LINE} of {count}"), &[one])?;
        }
        let measure = format!("rate at {large} ÷ rate at {SMALL_LIST_BLOBS}");
        self.report.check(LINE, &measure, range, Bound::AtLeast(0.8));
        self.report.check(LINE, &format!("{measure}, per CPU second"), of_cpu, Bound::None);
        self.report.check(LINE, "ms of the server for a page", Range::of(&pages[0]), Bound::AtMost(60.0));
        if let Some(azurite) = azurite {
            self.report.add_series(&format!("{LINE} of {PAGE_BLOBS}"), &[azurite])?;
            self.report.check(LINE, "× Azurite", over_azurite, Bound::AtLeast(12.0));
        }
        server.stop();
        Ok(())
    }

    /// The requests of all full pages of a container, found by going through it once.
    fn full_pages(&self, container: &Container, count: u64) -> Result<Source, AnyError> {
        let (mut pages, mut marker) = (Vec::new(), String::new());
        let mut found = 0;
        loop {
            let request = container.page(&marker, PAGE_BLOBS);
            let (answer, _) = send(&self.cores, &container.endpoint, &request)?;
            let text = String::from_utf8_lossy(&answer);
            let blobs = text.matches("<Blob>").count() as u64;
            found += blobs;
            if blobs == PAGE_BLOBS {
                pages.push(request);
            }
            let next = text.split_once("<NextMarker>").and_then(|(_, rest)| rest.split_once("</NextMarker>"));
            match next {
                Some((next, _)) if !next.is_empty() => marker = next.to_owned(),
                _ => break,
            }
        }
        if found != count {
            return Err(format!("a container of {count} blobs lists {found}").into());
        }
        Ok(Source::Any(Arc::new(pages)))
    }
}
