"""What Terraform, Durable Task, the Functions host and Orleans ask of blobs, call by call.

None of them runs here; each test sends the calls of one of them in its order, through the official client. The lists come
from their public sources.
"""
import hashlib
import json
import os
import uuid
from contextlib import contextmanager

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobLeaseClient, BlobServiceClient, ContentSettings


@pytest.fixture
def container():
    # No retries: a test that needs one hides a fault.
    with BlobServiceClient.from_connection_string(os.environ["TAVOLA_CONNECTION_STRING"], retry_total=0) as service:
        client = service.create_container(f"state-{uuid.uuid4().hex}")
        yield client
        client.delete_container()


@contextmanager
def refused(status, code):
    with pytest.raises(HttpResponseError) as raised:
        yield
    assert (raised.value.status_code, raised.value.error_code) == (status, code)


def test_terraform_locks_writes_snapshots_and_unlocks_its_state(container):
    state = container.get_blob_client("prod.terraform.tfstate")
    # The first run finds nothing and makes an empty state to lock.
    with refused(404, "BlobNotFound"):
        state.get_blob_properties()
    state.upload_blob(b"", content_settings=ContentSettings(content_type="application/json"), overwrite=True)
    lease_id = str(uuid.uuid4())
    lease = state.acquire_lease(-1, lease_id=lease_id)
    info = json.dumps({"ID": lease_id, "Operation": "OperationTypeApply", "Who": "me@host"})
    metadata = state.get_blob_properties().metadata | {"terraformlockid": info.encode().hex()}
    state.set_blob_metadata(metadata, lease=lease)

    # A second run sees who holds the lock.
    with refused(409, "LeaseAlreadyPresent"):
        state.acquire_lease(-1, lease_id=str(uuid.uuid4()))
    seen = state.get_blob_properties()
    assert (seen.lease.state, seen.metadata["terraformlockid"]) == ("leased", info.encode().hex())
    with refused(412, "LeaseIdMissing"):
        state.upload_blob(b"{}", overwrite=True)

    for serial in (1, 2):
        body = json.dumps({"version": 4, "serial": serial}).encode()
        state.create_snapshot(lease=lease)
        state.upload_blob(
            body, overwrite=True, lease=lease, metadata=state.get_blob_properties().metadata,
            content_settings=ContentSettings(content_type="application/json", content_md5=bytearray(hashlib.md5(body).digest())))
        assert json.loads(state.download_blob(lease=lease).readall())["serial"] == serial

    remaining = {name: value for name, value in state.get_blob_properties().metadata.items() if name != "terraformlockid"}
    state.set_blob_metadata(remaining, lease=lease)
    lease.release()
    assert state.get_blob_properties().lease.state == "available"
    # Workspaces are the blobs of a prefix; one with snapshots goes with them.
    assert [one.name for one in container.list_blobs(name_starts_with="prod.terraform.tfstate")] == ["prod.terraform.tfstate"]
    with refused(409, "SnapshotsPresent"):
        state.delete_blob()
    state.delete_blob(delete_snapshots="include")


def test_durable_task_balances_partitions_by_leases(container):
    # The task hub: one blob that says how many partitions there are, and a blob to lease for each.
    hub = container.get_blob_client("taskhub.json")
    hub.upload_blob(b'{"TaskHubName":"hub","PartitionCount":4}')
    with refused(409, "BlobAlreadyExists"):
        hub.upload_blob(b'{"TaskHubName":"hub","PartitionCount":8}')
    for number in range(4):
        name = f"default/hub-control-{number:02}"
        container.get_blob_client(name).upload_blob(json.dumps({"PartitionId": number}).encode(), metadata={"owner": ""})
        with refused(409, "BlobAlreadyExists"):
            container.get_blob_client(name).upload_blob(b"{}")
    workers = {"a": str(uuid.uuid4()), "b": str(uuid.uuid4())}
    leases = {}
    for number, one in enumerate(container.list_blobs(name_starts_with="default/", include=["metadata"])):
        owner = "ab"[number % 2]
        blob = container.get_blob_client(one.name)
        leases[one.name] = blob.acquire_lease(30, lease_id=workers[owner])
        blob.upload_blob(json.dumps({"Owner": owner}).encode(), overwrite=True, lease=leases[one.name], metadata={"owner": owner})
    owners = [one.metadata["owner"] for one in container.list_blobs(name_starts_with="default/", include=["metadata"])]
    assert owners == ["a", "b", "a", "b"]
    for lease in leases.values():
        lease.renew()
    # Worker b takes a partition over: a changes its lease to a fresh id, releases it, and b acquires it.
    stolen = "default/hub-control-00"
    leases[stolen].change(str(uuid.uuid4()))
    with refused(409, "LeaseIdMismatchWithLeaseOperation"):
        BlobLeaseClient(container.get_blob_client(stolen), lease_id=workers["a"]).renew()
    leases[stolen].release()
    container.get_blob_client(stolen).acquire_lease(30, lease_id=workers["b"]).release()
    # The hub is deleted blob by blob, leased ones with their id, then as a container that is leased itself.
    for name, lease in leases.items():
        held = {} if name == stolen else {"lease": lease}
        container.get_blob_client(name).delete_blob(delete_snapshots="include", **held)
    guard = container.acquire_lease(15)
    with refused(412, "LeaseIdMissing"):
        container.delete_container()
    guard.release()


def test_the_functions_host_elects_one_of_its_instances(container):
    lock = container.get_blob_client("locks/my-function-app/host")
    with refused(404, "BlobNotFound"):
        lock.acquire_lease(15, lease_id="00000000-0000-0000-0000-00000000000a")
    lock.upload_blob(b"", overwrite=False)
    held = lock.acquire_lease(15, lease_id="00000000-0000-0000-0000-00000000000a")
    lock.set_blob_metadata({"FunctionInstance": "instance-a"}, lease=held)
    with refused(409, "LeaseAlreadyPresent"):
        lock.acquire_lease(15, lease_id="00000000-0000-0000-0000-00000000000b")
    assert lock.get_blob_properties().metadata == {"FunctionInstance": "instance-a"}
    held.renew()
    held.release()
    lock.acquire_lease(15, lease_id="00000000-0000-0000-0000-00000000000b").release()
    # The identifier and the keys of the host are small blobs, the receipts of triggers even smaller ones.
    secrets = container.get_blob_client("my-function-app/host.json")
    secrets.upload_blob(b'{"masterKey":{"name":"master"}}')
    first = secrets.get_blob_properties().etag
    secrets.upload_blob(b'{"masterKey":{"name":"renewed"}}', overwrite=True, etag=first, match_condition=MatchConditions.IfNotModified)
    with refused(412, "ConditionNotMet"):
        secrets.upload_blob(b"{}", overwrite=True, etag=first, match_condition=MatchConditions.IfNotModified)
    receipt = container.get_blob_client("blobreceipts/my-function-app/Host.Functions.Copy/0x8D/in/file.txt")
    receipt.upload_blob(b"", metadata={"Completed": "False"})
    receipt.set_blob_metadata({"Completed": "True"})
    assert receipt.get_blob_properties().metadata == {"Completed": "True"}
    # The blob trigger scans by page, in name order, with what it needs to tell the new from the old.
    assert [one.name for one in container.list_blobs(name_starts_with="blobreceipts/", results_per_page=1)] == [receipt.blob_name]


def test_orleans_keeps_the_state_of_grains_under_their_etag():
    with BlobServiceClient.from_connection_string(os.environ["TAVOLA_CONNECTION_STRING"], retry_total=0) as service:
        container = service.get_container_client(f"grains-{uuid.uuid4().hex}")
        grain = container.get_blob_client("hello-00000000000000000000000000000001.json")
        # The first read finds no container, and neither does the first write, which then makes it.
        with refused(404, "ContainerNotFound"):
            grain.download_blob()
        with refused(404, "ContainerNotFound"):
            grain.upload_blob(b'{"Count":1}')
        container.create_container()
        with refused(404, "BlobNotFound"):
            grain.download_blob()
        settings = ContentSettings(content_type="application/json")
        first = grain.upload_blob(b'{"Count":1}', content_settings=settings)["etag"]
        under = lambda etag: {"etag": etag, "match_condition": MatchConditions.IfNotModified}
        second = grain.upload_blob(b'{"Count":2}', overwrite=True, content_settings=settings, **under(first))["etag"]
        found = grain.download_blob()
        assert (found.readall(), found.properties.etag) == (b'{"Count":2}', second)
        # Another silo activated the same grain and wrote under an ETag that is no longer true.
        with refused(412, "ConditionNotMet"):
            grain.upload_blob(b'{"Count":9}', overwrite=True, **under(first))
        with refused(412, "ConditionNotMet"):
            grain.delete_blob(**under(first))
        grain.delete_blob(delete_snapshots="include", **under(second))
        with refused(404, "BlobNotFound"):
            grain.download_blob()
        with refused(409, "ContainerAlreadyExists"):
            container.create_container()
        container.delete_container()
