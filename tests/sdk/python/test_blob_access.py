"""The official blob client on a tour through containers, listings, signatures and the settings of the service."""
from datetime import datetime, timedelta, timezone

import pytest
from azure.storage.blob import (
    AccessPolicy, AccountSasPermissions, BlobClient, BlobLeaseClient, BlobPrefix, BlobSasPermissions, BlobServiceClient, ContainerClient,
    ContainerSasPermissions, CorsRule, Metrics, PublicAccess, ResourceTypes, RetentionPolicy, generate_account_sas,
    generate_blob_sas, generate_container_sas,
)

from blobs import ACCOUNT, CONNECTION_STRING, ENDPOINT, KEY, blobs, container, new_name, refused  # noqa: F401
from conftest import SCENARIOS


def later(minutes=60):
    return datetime.now(timezone.utc) + timedelta(minutes=minutes)


@pytest.mark.scenario("container-create", "container-list", "container-delete", "container-missing")
def test_containers_are_created_once_listed_by_page_and_deleted(blobs):
    prefix = new_name("list")
    for number in range(5):
        blobs.create_container(f"{prefix}-{number}", metadata={"Number": str(number)})
    with refused(409, "ContainerAlreadyExists"):
        blobs.create_container(f"{prefix}-0")
    pages = list(blobs.list_containers(name_starts_with=prefix, results_per_page=2, include_metadata=True).by_page())
    found = [[(one.name[-1], one.metadata) for one in page] for page in pages]
    assert [len(page) for page in found] == [2, 2, 1]
    assert found[2][0] == ("4", {"Number": "4"})
    for number in range(5):
        blobs.delete_container(f"{prefix}-{number}")
    assert list(blobs.list_containers(name_starts_with=prefix)) == []
    gone = blobs.get_container_client(f"{prefix}-0")
    assert not gone.exists()
    for call in (
        gone.delete_container, gone.get_container_properties, lambda: gone.upload_blob("a", b""), lambda: list(gone.list_blobs()),
        lambda: gone.download_blob("a"), lambda: gone.get_blob_client("a").stage_block("1", b"x"),
    ):
        with refused(404, "ContainerNotFound"):
            call()


@pytest.mark.scenario("container-names", "container-metadata")
def test_names_are_checked_and_metadata_is_replaced_as_a_whole(blobs, container):
    for one in SCENARIOS["container_names_refused"]:
        with refused(one["status"], one["code"]):
            blobs.create_container(one["name"])
    container.set_container_metadata({"One": "1", "two": "2"})
    etag = container.get_container_properties().etag
    container.set_container_metadata({"three": "3"})
    properties = container.get_container_properties()
    assert properties.metadata == {"three": "3"} and properties.etag != etag
    assert (properties.lease.state, properties.public_access, properties.has_legal_hold) == ("available", None, False)


@pytest.mark.scenario("container-lease")
def test_a_leased_container_is_deleted_with_its_lease_only(container):
    lease = container.acquire_lease(-1)
    assert container.get_container_properties().lease.duration == "infinite"
    with refused(412, "LeaseIdMissing"):
        container.delete_container()
    with refused(409, "LeaseAlreadyPresent"):
        container.acquire_lease(15)
    # A lease on the container is none on its blobs.
    container.upload_blob("a", b"x")
    lease.renew()
    lease.change("22222222-2222-2222-2222-222222222222")
    with refused(412, "LeaseIdMismatchWithContainerOperation"):
        container.delete_container(lease="11111111-1111-1111-1111-111111111111")
    assert lease.break_lease(0) == 0
    assert container.get_container_properties().lease.state == "broken"
    with refused(409, "LeaseNotPresentWithLeaseOperation"):
        BlobLeaseClient(container.get_blob_client("a")).break_lease()
    container.delete_container(lease=container.acquire_lease(60))


@pytest.mark.scenario("container-acl")
def test_policies_and_public_access_are_kept(container):
    read = lambda text: datetime.fromisoformat(text.replace("Z", "+00:00"))
    policies = {one["id"]: AccessPolicy(one["permission"], read(one["expiry"]), read(one["start"])) for one in SCENARIOS["container_policies"]}
    container.set_container_access_policy(policies, public_access=PublicAccess.BLOB)
    found = container.get_container_access_policy()
    assert found["public_access"] == "blob"
    shown = [(one.id, one.access_policy.permission, str(one.access_policy.start)[:10]) for one in found["signed_identifiers"]]
    assert shown == [(one["id"], one["permission"], "2020-01-01") for one in SCENARIOS["container_policies"]]
    container.set_container_access_policy({})
    found = container.get_container_access_policy()
    assert (found["public_access"], found["signed_identifiers"]) == (None, [])


@pytest.mark.scenario("blob-list", "blob-hierarchy", "blob-list-kinds")
def test_listings_are_flat_or_by_folder_and_come_in_pages(container):
    names = SCENARIOS["blob_names"]
    for name in reversed(names):
        container.upload_blob(name, b"x", metadata={"name": name})
    assert [one.name for one in container.list_blobs()] == names == list(container.list_blob_names())
    assert [one.name for one in container.list_blobs(name_starts_with="a/")] == [name for name in names if name.startswith("a/")]
    assert [one.metadata["name"] for one in container.list_blobs(include=["metadata"])] == names
    assert all(one.metadata is None or one.metadata == {} for one in container.list_blobs())
    listing = container.list_blobs(results_per_page=3).by_page()
    first = [one.name for one in next(listing)]
    rest = container.list_blobs(results_per_page=3).by_page(listing.continuation_token)
    assert [first] + [[one.name for one in page] for page in rest] == [names[:3], names[3:6], names[6:]]
    folders = SCENARIOS["blob_folders"]
    top = list(container.walk_blobs(delimiter="/"))
    # The client puts folders before the blobs of their page.
    assert sorted(one.name for one in top) == ["B", "a", "a/", "c", "d/"]
    assert [one.name for one in top if isinstance(one, BlobPrefix)] == folders
    assert sorted(one.name for one in container.walk_blobs("a/", delimiter="/")) == ["a/1", "a/2", "a/b/"]
    pages = container.walk_blobs(delimiter="/", results_per_page=2).by_page()
    assert [sorted(one.name for one in page) for page in pages] == [["B", "a"], ["a/", "c"], ["d/"]]

    snapshot = container.get_blob_client("c").create_snapshot()["snapshot"]
    container.get_blob_client("bb").stage_block("1", b"x")
    found = [(one.name, one.snapshot) for one in container.list_blobs("c", include=["snapshots"])]
    assert found == [("c", snapshot), ("c", None)]
    assert [one.name for one in container.list_blobs("b")] == []
    assert [one.name for one in container.list_blobs("b", include=["uncommittedblobs"])] == ["bb"]


@pytest.mark.scenario("blob-names")
def test_odd_names_are_names(container):
    names = SCENARIOS["blob_names_odd"]
    for name in names:
        container.upload_blob(name, name.encode())
    assert sorted(one.name for one in container.list_blobs()) == sorted(names)
    for name in names:
        assert container.download_blob(name).readall().decode() == name
        container.delete_blob(name)
    assert list(container.list_blobs()) == []


def test_listings_of_many_blobs_come_in_pages(container):
    for number in range(120):
        container.upload_blob(f"{number:03}/file", b"")
    expected = [f"{number:03}/" for number in range(120)]
    assert [one.name for one in container.walk_blobs(delimiter="/", results_per_page=7)] == expected
    assert [one.name for one in container.list_blobs(results_per_page=7)] == [name + "file" for name in expected]


@pytest.mark.scenario("blob-sas", "container-sas", "blob-sas-account")
def test_signatures_open_what_they_name(container, blobs):
    container.upload_blob("a", b"one")
    name = container.container_name
    sign = lambda letters, expiry: generate_blob_sas(ACCOUNT, name, "a", account_key=KEY, permission=letters, expiry=expiry, content_type="text/css")
    reader = lambda token, blob="a": BlobClient(ENDPOINT, name, blob, credential=token, retry_total=0)
    token = sign(BlobSasPermissions(read=True), later())
    assert reader(token).download_blob().readall() == b"one"
    assert reader(token).download_blob().properties.content_settings.content_type == "text/css"
    with refused(403, "AuthorizationPermissionMismatch"):
        reader(token).upload_blob(b"two", overwrite=True)
    for late in (sign(BlobSasPermissions(read=True), later(-1)), token.replace("sig=", "sig=AAAA")):
        with refused(403, "AuthenticationFailed"):
            reader(late).download_blob()
    with refused(403, "AuthenticationFailed"):
        reader(token, "b").download_blob()
    # Create may not overwrite, write may.
    creator = reader(sign(BlobSasPermissions(create=True), later()))
    with refused(403, "UnauthorizedBlobOverwrite"):
        creator.upload_blob(b"two", overwrite=True)
    reader(sign(BlobSasPermissions(write=True), later())).upload_blob(b"two", overwrite=True)
    snapshot = container.get_blob_client("a").create_snapshot()["snapshot"]
    token = generate_blob_sas(ACCOUNT, name, "a", snapshot=snapshot, account_key=KEY, permission=BlobSasPermissions(read=True), expiry=later())
    assert BlobClient(ENDPOINT, name, "a", snapshot, credential=token, retry_total=0).download_blob().readall() == b"two"

    token = generate_container_sas(ACCOUNT, name, KEY, permission=ContainerSasPermissions(read=True, list=True), expiry=later())
    guest = ContainerClient(ENDPOINT, name, credential=token, retry_total=0)
    assert [one.name for one in guest.list_blobs()] == ["a"]
    assert guest.download_blob("a").readall() == b"two"
    with refused(403, "AuthorizationPermissionMismatch"):
        guest.delete_blob("a")
    with refused(403, "AuthorizationFailure"):
        guest.get_container_access_policy()
    other = blobs.create_container(new_name())
    with refused(403, "AuthenticationFailed"):
        list(ContainerClient(ENDPOINT, other.container_name, credential=token, retry_total=0).list_blobs())
    other.delete_container()

    token = generate_account_sas(ACCOUNT, KEY, ResourceTypes(object=True), AccountSasPermissions(read=True, write=True), later())
    guest = ContainerClient(ENDPOINT, name, credential=token, retry_total=0)
    guest.upload_blob("b", b"three")
    assert guest.download_blob("b").readall() == b"three"
    with refused(403, "AuthorizationResourceTypeMismatch"):
        list(guest.list_blobs())
    with refused(403, "AuthorizationPermissionMismatch"):
        guest.delete_blob("b")


@pytest.mark.scenario("blob-sas-policy", "blob-anonymous")
def test_stored_policies_and_public_access_open_until_they_are_withdrawn(container):
    container.upload_blob("a", b"one")
    name = container.container_name
    container.set_container_access_policy({"readers": AccessPolicy(ContainerSasPermissions(read=True), later(), later(-60))})
    token = generate_container_sas(ACCOUNT, name, KEY, policy_id="readers")
    guest = ContainerClient(ENDPOINT, name, credential=token, retry_total=0)
    assert guest.download_blob("a").readall() == b"one"
    container.set_container_access_policy({})
    with refused(403, "AuthenticationFailed"):
        guest.download_blob("a")

    anyone = ContainerClient(ENDPOINT, name, retry_total=0)
    with refused(401, "NoAuthenticationInformation"):
        anyone.download_blob("a")
    container.set_container_access_policy({}, public_access=PublicAccess.BLOB)
    assert anyone.download_blob("a").readall() == b"one"
    with refused(401, "NoAuthenticationInformation"):
        list(anyone.list_blobs())
    container.set_container_access_policy({}, public_access=PublicAccess.CONTAINER)
    assert [one.name for one in anyone.list_blobs()] == ["a"]
    assert anyone.get_container_properties().public_access == "container"
    with refused(401, "NoAuthenticationInformation"):
        anyone.upload_blob("b", b"x")


@pytest.mark.scenario("blob-shared-key", "blob-connection-string", "blob-development")
def test_keys_and_connection_strings_open_the_account():
    with refused(403, "AuthenticationFailed"):
        list(BlobServiceClient(ENDPOINT, credential={"account_name": ACCOUNT, "account_key": "d3Jvbmc="}, retry_total=0).list_containers())
    for service in (
        BlobServiceClient(ENDPOINT, credential={"account_name": ACCOUNT, "account_key": KEY}, retry_total=0),
        BlobServiceClient.from_connection_string(CONNECTION_STRING, retry_total=0),
        BlobServiceClient.from_connection_string("UseDevelopmentStorage=true", retry_total=0),
    ):
        with service:
            own = service.create_container(new_name("access"))
            own.upload_blob("a", b"x")
            assert own.download_blob("a").readall() == b"x"
            own.delete_container()


@pytest.mark.scenario("blob-properties", "blob-undelete")
def test_the_settings_of_the_service_are_kept_and_deleted_blobs_come_back(blobs, container):
    rule = CorsRule(["http://example.com"], ["GET"], max_age_in_seconds=7)
    kept = RetentionPolicy(enabled=True, days=5)
    blobs.set_service_properties(cors=[rule], hour_metrics=Metrics(enabled=True, include_apis=True, retention_policy=kept), delete_retention_policy=kept)
    try:
        found = blobs.get_service_properties()
        assert (found["cors"][0].allowed_origins, found["hour_metrics"].retention_policy.days) == ("http://example.com", 5)
        assert (found["delete_retention_policy"].enabled, found["delete_retention_policy"].days) == (True, 5)
        blob = container.upload_blob("a", b"one")
        blob.delete_blob()
        assert not blob.exists() and list(container.list_blobs()) == []
        deleted = list(container.list_blobs(include=["deleted"]))
        assert [(one.name, one.deleted) for one in deleted] == [("a", True)] and deleted[0].remaining_retention_days in (4, 5)
        blob.undelete_blob()
        assert blob.download_blob().readall() == b"one"
    finally:
        blobs.set_service_properties(cors=[], hour_metrics=Metrics(enabled=False), delete_retention_policy=RetentionPolicy(enabled=False))
    assert not blobs.get_service_properties()["cors"]


@pytest.mark.scenario("blob-statistics", "blob-account")
def test_the_account_tells_of_itself(blobs):
    information = blobs.get_account_information()
    assert information["sku_name"].startswith("Standard_") and "Storage" in information["account_kind"]
    # Left to itself, the client puts the secondary in front of the account in the path and signs something else.
    secondary = BlobServiceClient(
        ENDPOINT + "-secondary", credential={"account_name": ACCOUNT, "account_key": KEY}, retry_total=0, secondary_hostname=ENDPOINT.split("/")[2])
    assert secondary.get_service_stats()["geo_replication"]["status"] == "live"
