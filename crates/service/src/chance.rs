//! Where random bits come from. Passed in, so that a simulated run replays from its seed.

/// A source of random bytes.
pub trait Chance: Send + Sync + 'static {
    /// Random bytes that nobody has seen before.
    fn bytes(&self) -> [u8; 8];
}

/// The source of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemChance;

impl Chance for SystemChance {
    fn bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the system has a source of random bytes");
        bytes
    }
}
