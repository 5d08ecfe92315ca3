"""The official blob client on a tour through contents: block, append and page blobs, ranges, conditions, copies."""
import hashlib
import random

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobBlock, BlobClient, BlobLeaseClient, BlobType, ContentSettings, StandardBlobTier
from azure.storage.blob.aio import BlobServiceClient as AsyncBlobServiceClient

from blobs import ACCOUNT, CONNECTION_STRING, KEY, blobs, container, new_name, refused, service_with  # noqa: F401
from conftest import SCENARIOS


def pattern(length, seed=1):
    """Bytes in which no two blocks are alike."""
    return random.Random(seed).randbytes(length)


def md5(data):
    return hashlib.md5(data).digest()


@pytest.mark.scenario("blob-upload", "blob-delete")
def test_a_small_blob_comes_back_with_its_type_its_md5_and_its_etag(container):
    blob = container.get_blob_client("folder/small.txt")
    made = blob.upload_blob(b"hello", content_settings=ContentSettings(content_type="text/plain"))
    downloaded = blob.download_blob()
    assert downloaded.readall() == b"hello"
    properties = blob.get_blob_properties()
    assert (properties.size, properties.etag, properties.blob_type) == (5, made["etag"], BlobType.BLOCKBLOB)
    assert properties.content_settings.content_type == "text/plain"
    assert properties.content_settings.content_md5 == md5(b"hello")
    assert properties.creation_time <= properties.last_modified == made["last_modified"]
    assert blob.exists()
    blob.delete_blob()
    assert not blob.exists()
    for call in (blob.delete_blob, blob.download_blob):
        with refused(404, "BlobNotFound"):
            call()


def test_an_empty_blob_is_a_blob(container):
    blob = container.upload_blob("empty", b"")
    assert blob.download_blob().readall() == b""
    assert blob.get_blob_properties().size == 0
    with refused(416, "InvalidRange"):
        blob.download_blob(offset=0, length=1)


@pytest.mark.scenario("blob-parallel")
def test_a_large_blob_goes_up_in_parallel_blocks_and_down_in_parallel_ranges(container):
    block = SCENARIOS["blob_block_bytes"]
    options = {"max_single_put_size": block, "max_block_size": block, "max_single_get_size": block, "max_chunk_get_size": block}
    with service_with(**options) as parallel:
        blob = parallel.get_blob_client(container.container_name, "large")
        data = pattern(SCENARIOS["blob_large_bytes"])
        blob.upload_blob(data, max_concurrency=4)
        assert blob.download_blob(max_concurrency=4).readall() == data
        committed, uncommitted = blob.get_block_list("all")
        assert sum(one.size for one in committed) == len(data) and len(committed) == 10 and uncommitted == []
        with refused(409, "BlobAlreadyExists"):
            blob.upload_blob(data, max_concurrency=4)
        blob.upload_blob(data[::-1], max_concurrency=4, overwrite=True)
        assert blob.download_blob(max_concurrency=4).readall() == data[::-1]
        # Without a length the client cannot tell how many blocks there will be.
        pieces = (data[start:start + 100_000] for start in range(0, len(data), 100_000))
        blob.upload_blob(pieces, max_concurrency=4, overwrite=True)
        assert blob.download_blob(validate_content=True).readall() == data


@pytest.mark.scenario("blob-blocks")
def test_blocks_become_the_blob_that_their_list_says(container):
    blob = container.get_blob_client("blocks")
    for number in range(3):
        blob.stage_block(f"block-{number}", str(number) * 10)
    committed, uncommitted = blob.get_block_list("all")
    assert committed == [] and {(one.id, one.size) for one in uncommitted} == {(f"block-{number}", 10) for number in range(3)}
    with refused(404, "BlobNotFound"):
        blob.get_blob_properties()
    blob.commit_block_list([BlobBlock("block-2"), BlobBlock("block-0")], metadata={"a": "1"})
    assert blob.download_blob().readall() == b"2" * 10 + b"0" * 10
    committed, uncommitted = blob.get_block_list("all")
    assert [one.id for one in committed] == ["block-2", "block-0"] and uncommitted == []
    blob.stage_block("block-9", "new")
    blob.commit_block_list([BlobBlock("block-0"), BlobBlock("block-9"), BlobBlock("block-0")])
    assert blob.download_blob().readall() == b"0" * 10 + b"new" + b"0" * 10
    assert blob.get_blob_properties().metadata == {}
    with refused(400, "InvalidBlockList"):
        blob.commit_block_list([BlobBlock("block-0"), BlobBlock("block-1")])
    blob.stage_block("block-3", "x")
    with refused(400, "InvalidBlobOrBlock"):
        blob.stage_block("another length", "x")


@pytest.mark.scenario("blob-range", "blob-md5")
def test_ranges_come_with_their_md5_and_wrong_sums_are_refused(container):
    data = pattern(3000)
    blob = container.upload_blob("ranges", data)
    assert blob.download_blob(offset=1000, length=1000, validate_content=True).readall() == data[1000:2000]
    assert blob.download_blob(offset=2990, length=5000).readall() == data[2990:]
    found = []
    blob.download_blob(
        offset=10, length=20, validate_content=True, raw_response_hook=lambda one: found.append(one.http_response.headers)).readall()
    assert found[0]["Content-Range"] == "bytes 10-29/3000"
    with refused(416, "InvalidRange"):
        blob.download_blob(offset=3000, length=1)
    other = container.get_blob_client("other")
    with refused(400, "Md5Mismatch"):
        other.upload_blob(b"data", headers={"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})
    with refused(400, "Md5Mismatch"):
        other.stage_block("1", b"data", headers={"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})
    assert not other.exists()
    other.upload_blob(data, validate_content=True)
    assert other.download_blob().readall() == data


@pytest.mark.scenario("blob-headers", "blob-metadata")
def test_headers_and_metadata_are_replaced_as_a_whole(container):
    blob = container.get_blob_client("headers")
    all_five = ContentSettings(
        content_type="text/css", content_encoding="gzip", content_language="de", content_disposition="inline", cache_control="no-cache")
    blob.upload_blob(b"x", content_settings=all_five, metadata={"One": "1", "two": "2"})
    properties = blob.get_blob_properties()
    found = properties.content_settings
    assert (found.content_type, found.content_encoding, found.content_language, found.content_disposition, found.cache_control) == (
        "text/css", "gzip", "de", "inline", "no-cache")
    assert properties.metadata == {"One": "1", "two": "2"}
    changed = blob.set_blob_metadata({"Three": "3"})
    assert changed["etag"] != properties.etag
    blob.set_http_headers(ContentSettings(content_language="fr"))
    properties = blob.get_blob_properties()
    found = properties.content_settings
    assert (found.content_language, found.content_encoding, found.cache_control) == ("fr", None, None)
    assert properties.metadata == {"Three": "3"}
    with refused(400, "InvalidMetadata"):
        blob.set_blob_metadata({"not-an-identifier": "1"})


@pytest.mark.scenario("blob-conditions")
def test_conditions_are_kept(container):
    blob = container.upload_blob("conditions", b"one")
    with refused(409, "BlobAlreadyExists"):
        blob.upload_blob(b"two")
    stale = blob.get_blob_properties()
    made = blob.upload_blob(b"two", overwrite=True, etag=stale.etag, match_condition=MatchConditions.IfNotModified)
    fresh = made["etag"]
    not_changed = {"etag": stale.etag, "match_condition": MatchConditions.IfNotModified}
    for call in (
        lambda: blob.upload_blob(b"three", overwrite=True, **not_changed), lambda: blob.set_blob_metadata({}, **not_changed),
        lambda: blob.set_http_headers(ContentSettings(), **not_changed), lambda: blob.delete_blob(**not_changed),
        lambda: blob.download_blob(**not_changed), lambda: blob.get_blob_properties(**not_changed),
        lambda: blob.create_snapshot(**not_changed), lambda: blob.commit_block_list([], **not_changed),
        lambda: blob.set_blob_metadata({}, if_unmodified_since=stale.last_modified.replace(year=2000)),
        lambda: blob.set_blob_metadata({}, etag=fresh, match_condition=MatchConditions.IfModified),
    ):
        with refused(412, "ConditionNotMet"):
            call()
    for unchanged in ({"etag": fresh, "match_condition": MatchConditions.IfModified}, {"if_modified_since": made["last_modified"]}):
        for read in (blob.download_blob, blob.get_blob_properties):
            with refused(304, "ConditionNotMet"):
                read(**unchanged)
    assert blob.download_blob(etag=fresh, match_condition=MatchConditions.IfNotModified).readall() == b"two"
    with refused(412, "ConditionNotMet"):
        container.get_blob_client("none").upload_blob(b"", overwrite=True, match_condition=MatchConditions.IfPresent)


@pytest.mark.scenario("blob-lease")
def test_a_lease_keeps_others_from_writing(container):
    blob = container.upload_blob("leased", b"one")
    etag = blob.get_blob_properties().etag
    lease = blob.acquire_lease(15, lease_id="11111111-1111-1111-1111-111111111111")
    other = "22222222-2222-2222-2222-222222222222"
    properties = blob.get_blob_properties()
    assert (properties.lease.state, properties.lease.status, properties.lease.duration, properties.etag) == ("leased", "locked", "fixed", etag)
    with refused(409, "LeaseAlreadyPresent"):
        blob.acquire_lease(15, lease_id=other)
    for call in (lambda **id: blob.upload_blob(b"", overwrite=True, **id), lambda **id: blob.set_blob_metadata({}, **id), lambda **id: blob.delete_blob(**id)):
        with refused(412, "LeaseIdMissing"):
            call()
        with refused(412, "LeaseIdMismatchWithBlobOperation"):
            call(lease=other)
    assert blob.download_blob().readall() == b"one"
    blob.upload_blob(b"two", overwrite=True, lease=lease)
    lease.renew()
    lease.change(other)
    assert lease.id == other
    with refused(409, "LeaseIdMismatchWithLeaseOperation"):
        BlobLeaseClient(blob, lease_id="33333333-3333-3333-3333-333333333333").renew()
    assert 0 < lease.break_lease(10) <= 10
    assert blob.get_blob_properties().lease.state == "breaking"
    with refused(409, "LeaseAlreadyPresent"):
        blob.acquire_lease(15)
    with refused(409, "LeaseIsBreakingAndCannotBeAcquired"):
        blob.acquire_lease(15, lease_id=other)
    lease.break_lease(0)
    assert blob.get_blob_properties().lease.state == "broken"
    again = blob.acquire_lease(-1)
    assert blob.get_blob_properties().lease.duration == "infinite"
    released = again.id
    again.release()
    with refused(412, "LeaseNotPresentWithBlobOperation"):
        blob.set_blob_metadata({}, lease=released)
    for seconds in (14, 61):
        with refused(400, "InvalidHeaderValue"):
            blob.acquire_lease(seconds)
    blob.delete_blob()


@pytest.mark.scenario("blob-snapshot")
def test_snapshots_keep_what_was(container, blobs):
    blob = container.upload_blob("snapshots", b"one", metadata={"number": "1"})
    first = blob.create_snapshot()["snapshot"]
    blob.upload_blob(b"two", overwrite=True)
    second = blob.create_snapshot(metadata={"number": "2"})["snapshot"]
    assert first < second
    frozen = BlobClient.from_blob_url(f"{blob.url}?snapshot={first}", blobs.credential, retry_total=0)
    assert frozen.download_blob().readall() == b"one"
    assert frozen.get_blob_properties().metadata == {"number": "1"}
    assert blob.download_blob().readall() == b"two"
    with refused(409, "SnapshotsPresent"):
        blob.delete_blob()
    frozen.delete_blob()
    with refused(404, "BlobNotFound"):
        frozen.get_blob_properties()
    blob.delete_blob(delete_snapshots="only")
    assert blob.exists()
    blob.create_snapshot()
    blob.delete_blob(delete_snapshots="include")
    assert list(container.list_blobs(include=["snapshots"])) == []


@pytest.mark.scenario("blob-append", "blob-seal", "blob-types")
def test_append_blobs_grow_until_they_are_sealed(container):
    blob = container.get_blob_client("log")
    blob.create_append_blob()
    assert blob.append_block(b"one\n")["blob_append_offset"] == "0"
    answer = blob.append_block(b"two\n", appendpos_condition=4, maxsize_condition=8, validate_content=True)
    assert (answer["blob_append_offset"], answer["blob_committed_block_count"]) == ("4", 2)
    with refused(412, "AppendPositionConditionNotMet"):
        blob.append_block(b"x", appendpos_condition=4)
    with refused(412, "MaxBlobSizeConditionNotMet"):
        blob.append_block(b"x", maxsize_condition=8)
    blob.upload_blob(pattern(100_000), blob_type=BlobType.APPENDBLOB)
    assert blob.download_blob().readall() == b"one\ntwo\n" + pattern(100_000)
    properties = blob.get_blob_properties()
    assert (properties.blob_type, properties.append_blob_committed_block_count) == (BlobType.APPENDBLOB, 3)
    with refused(409, "InvalidBlobType"):
        blob.stage_block("1", b"x")
    with refused(409, "InvalidBlobType"):
        container.upload_blob("block blob", b"").append_block(b"x")
    blob.seal_append_blob()
    with refused(409, "BlobIsSealed"):
        blob.append_block(b"x")
    assert blob.get_blob_properties().is_append_blob_sealed


@pytest.mark.scenario("blob-pages")
def test_pages_are_written_cleared_listed_and_cut_off(container):
    blob = container.get_blob_client("disk")
    blob.create_page_blob(8192, sequence_number=3)
    page = pattern(512)
    blob.upload_page(page * 4, offset=512, length=2048)
    blob.clear_page(offset=1024, length=512)
    assert blob.download_blob().readall() == b"\0" * 512 + page + b"\0" * 512 + page * 2 + b"\0" * (8192 - 2560)
    ranges, _ = blob.get_page_ranges()
    assert [(one["start"], one["end"]) for one in ranges] == [(512, 1023), (1536, 2559)]
    assert blob.resize_blob(1024)["etag"]
    assert blob.download_blob().readall() == b"\0" * 512 + page
    with refused(416, "InvalidPageRange"):
        blob.upload_page(page, offset=1024, length=512)
    with refused(412, "SequenceNumberConditionNotMet"):
        blob.upload_page(page, offset=0, length=512, if_sequence_number_lt=3)
    blob.set_sequence_number("increment")
    assert blob.get_blob_properties().page_blob_sequence_number == 4


@pytest.mark.scenario("blob-copy", "blob-from-url")
def test_blobs_are_copied_within_the_account(container):
    data = pattern(300_000)
    source = container.upload_blob("source", data, metadata={"a": "1"}, content_settings=ContentSettings(content_type="text/css"))
    url = source.url + "?" + signed(source)
    copied = container.get_blob_client("copied")
    started = copied.start_copy_from_url(source.url)
    assert started["copy_status"] == "success"
    properties = copied.get_blob_properties()
    assert (properties.metadata, properties.content_settings.content_type) == ({"a": "1"}, "text/css")
    assert (properties.copy.id, properties.copy.status, properties.copy.progress) == (started["copy_id"], "success", "300000/300000")
    with refused(409, "NoPendingCopyOperation"):
        copied.abort_copy(started["copy_id"])
    synchronous = container.get_blob_client("synchronous")
    assert synchronous.start_copy_from_url(url, requires_sync=True, metadata={"b": "2"})["copy_status"] == "success"
    assert synchronous.get_blob_properties().metadata == {"b": "2"}
    put = container.get_blob_client("put")
    put.upload_blob_from_url(url)
    staged = container.get_blob_client("staged")
    staged.stage_block_from_url("1", url, source_offset=100, source_length=1000)
    staged.commit_block_list([BlobBlock("1")])
    appended = container.get_blob_client("appended")
    appended.create_append_blob()
    appended.append_block_from_url(url, source_offset=0, source_length=10)
    assert [one.download_blob().readall() for one in (copied, synchronous, put, staged, appended)] == [
        data, data, data, data[100:1100], data[:10]]
    with refused(404, "BlobNotFound"):
        copied.start_copy_from_url(source.url + "-none")
    with refused(412, "SourceConditionNotMet"):
        copied.start_copy_from_url(source.url, source_etag="0x1", source_match_condition=MatchConditions.IfNotModified)


def signed(blob):
    from datetime import datetime, timedelta, timezone
    from azure.storage.blob import BlobSasPermissions, generate_blob_sas
    return generate_blob_sas(
        ACCOUNT, blob.container_name, blob.blob_name, account_key=KEY, permission=BlobSasPermissions(read=True),
        expiry=datetime.now(timezone.utc) + timedelta(hours=1))


@pytest.mark.scenario("blob-tags")
def test_tags_are_kept_found_and_conditions(container, blobs):
    mark = new_name("mark").replace("-", "")
    blob = container.upload_blob("tagged", b"x", tags={"run": mark, "colour": "blue"})
    assert blob.get_blob_tags() == {"run": mark, "colour": "blue"}
    blob.set_blob_tags({"run": mark, "colour": "red"})
    assert blob.get_blob_properties().tag_count == 2
    assert [one.tags for one in container.list_blobs(include=["tags"])] == [{"run": mark, "colour": "red"}]
    container.upload_blob("other", b"x", tags={"run": mark, "colour": "green"})
    found = blobs.find_blobs_by_tags(f"\"run\"='{mark}' and \"colour\">'green'")
    assert [(one.container_name, one.name) for one in found] == [(container.container_name, "tagged")]
    assert [one.name for one in container.find_blobs_by_tags(f"\"run\"='{mark}'")] == ["other", "tagged"]
    with refused(412, "ConditionNotMet"):
        blob.set_blob_metadata({}, if_tags_match_condition="\"colour\"='green'")
    blob.set_blob_metadata({}, if_tags_match_condition="\"colour\"='red'")
    with pytest.raises(HttpResponseError) as raised:
        blob.set_blob_tags({"a": "not&allowed"})
    assert raised.value.status_code == 400


@pytest.mark.scenario("blob-tier")
def test_tiers_are_kept_and_an_archived_blob_is_not_read(container):
    blob = container.upload_blob("tiered", b"x", standard_blob_tier=StandardBlobTier.COOL)
    assert blob.get_blob_properties().blob_tier == "Cool" and not blob.get_blob_properties().blob_tier_inferred
    blob.set_standard_blob_tier(StandardBlobTier.HOT)
    assert [one.blob_tier for one in container.list_blobs()] == ["Hot"]
    blob.set_standard_blob_tier(StandardBlobTier.ARCHIVE)
    with refused(409, "BlobArchived"):
        blob.download_blob()
    assert blob.get_blob_properties().blob_tier == "Archive"


@pytest.mark.scenario("blob-batch")
def test_batches_delete_and_set_tiers(container):
    for number in range(5):
        container.upload_blob(f"dir/{number} ü", b"x")
    answers = list(container.delete_blobs("dir/0 ü", "none", "dir/1 ü", raise_on_any_failure=False))
    assert [one.status_code for one in answers] == [202, 404, 202]
    answers = list(container.set_standard_blob_tier_blobs(StandardBlobTier.COOL, "dir/2 ü", "dir/3 ü"))
    assert [one.status_code for one in answers] == [200, 200]
    assert [(one.name, one.blob_tier) for one in container.list_blobs()] == [("dir/2 ü", "Cool"), ("dir/3 ü", "Cool"), ("dir/4 ü", "Hot")]


def test_the_asynchronous_client_goes_up_and_down_in_parallel(container):
    import asyncio

    async def tour():
        block = SCENARIOS["blob_block_bytes"]
        data = pattern(SCENARIOS["blob_large_bytes"], seed=2)
        options = {"max_single_put_size": block, "max_block_size": block, "max_single_get_size": block, "max_chunk_get_size": block}
        async with AsyncBlobServiceClient.from_connection_string(CONNECTION_STRING, retry_total=0, **options) as client:
            blob = client.get_blob_client(container.container_name, "asynchronous")
            await blob.upload_blob(data, max_concurrency=8)
            stream = await blob.download_blob(max_concurrency=8)
            return await stream.readall() == data

    assert asyncio.run(tour())
