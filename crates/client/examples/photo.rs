//! Large entities: an employee's photo is a blob, and the employee names it.

mod support;

use tavola_client::eventual::{Intents, Worker, WorkerSettings};
use tavola_client::patterns::large::{Large, LargeTable};
use tavola_client::{Account, Entity, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    photo: Option<Large>,
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let intents = Intents::new(account.queue("photo-intents"));
    let photos =
        LargeTable::<Employee>::new(account.table("Photos"), account.container("photos"), intents.clone());
    photos.create().await?;
    let jpeg = vec![7; 300_000];
    let don = Employee { department: "Sales".into(), id: 123, photo: Some(Large::new(jpeg.clone())) };
    photos.insert(don).await?;

    let found = photos.get_whole(("Sales", "empid_000123")).await?;
    let (mut stored, contents) = found.ok_or(tavola_client::Error::NotFound)?;
    assert_eq!(contents[0].1, jpeg);

    // A new photo is a new blob; a worker removes the old one an hour later.
    stored.photo = Some(Large::new(vec![8; 300_000]));
    photos.save(&mut stored).await?;
    let worker = Worker::new(intents, WorkerSettings::default()).serve(photos.clone());
    worker.drain().await?;
    assert_eq!(account.container("photos").list("").await?.len(), 2);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
