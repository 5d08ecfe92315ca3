"""The official queue client on a tour: every operation, paging, expiry, receipts, encodings, SAS, metadata."""
import time
import uuid
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.queue import (
    AccessPolicy, BinaryBase64DecodePolicy, BinaryBase64EncodePolicy, CorsRule, QueueClient,
    QueueSasPermissions, QueueServiceClient, TextBase64DecodePolicy, TextBase64EncodePolicy,
    generate_account_sas, generate_queue_sas, ResourceTypes, AccountSasPermissions,
)
from azure.storage.queue.aio import QueueServiceClient as AsyncQueueServiceClient


@pytest.fixture(scope="module")
def queues(connection_string):
    # No retries: a test that needs one hides a fault.
    with QueueServiceClient.from_connection_string(connection_string, retry_total=0) as client:
        yield client


def new_name(prefix="tour"):
    return f"{prefix}-{uuid.uuid4().hex}"


@pytest.fixture
def queue(queues):
    client = queues.create_queue(new_name())
    yield client
    try:
        client.delete_queue()
    except ResourceNotFoundError:
        pass


def key_of(connection_string):
    parts = dict(part.split("=", 1) for part in connection_string.split(";") if part)
    return parts["AccountName"], parts["AccountKey"], parts["QueueEndpoint"]


@pytest.mark.scenario("queue-create", "queue-list", "queue-delete")
def test_queues_are_created_once_listed_by_page_and_deleted(queues):
    prefix = new_name("list")
    for number in range(5):
        queues.create_queue(f"{prefix}-{number}", metadata={"Number": str(number)})
    with pytest.raises(ResourceExistsError) as raised:
        queues.create_queue(f"{prefix}-0", metadata={"other": "1"})
    assert raised.value.error_code == "QueueAlreadyExists"
    # The service says 204 to the same metadata; the client makes the same error of it.
    with pytest.raises(ResourceExistsError):
        queues.create_queue(f"{prefix}-0", metadata={"Number": "0"})
    pages = list(queues.list_queues(name_starts_with=prefix, results_per_page=2, include_metadata=True).by_page())
    found = [[(one.name[-1], one.metadata) for one in page] for page in pages]
    assert [len(page) for page in found] == [2, 2, 1]
    assert found[0][0] == ("0", {"Number": "0"})
    for number in range(5):
        queues.delete_queue(f"{prefix}-{number}")
    assert list(queues.list_queues(name_starts_with=prefix)) == []


@pytest.mark.scenario("queue-metadata")
def test_metadata_is_replaced_whole_and_counts_come_with_it(queue):
    queue.set_queue_metadata({"one": "1", "two": "2"})
    queue.set_queue_metadata({"three": "3"})
    queue.send_message("a")
    properties = queue.get_queue_properties()
    assert properties.metadata == {"three": "3"}
    assert properties.approximate_message_count == 1
    with pytest.raises(HttpResponseError) as raised:
        queue.set_queue_metadata({"not-an-identifier": "1"})
    assert raised.value.error_code == "InvalidMetadata"


@pytest.mark.scenario("message-put", "message-peek", "message-get", "message-update", "message-delete", "message-dequeue-count")
def test_messages_are_put_peeked_at_got_updated_and_deleted(queue):
    sent = queue.send_message("first <&> \u3688", time_to_live=3600)
    assert sent.expires_on - sent.inserted_on == timedelta(hours=1)
    assert [one.content for one in queue.peek_messages(5)] == ["first <&> \u3688"]
    got = queue.receive_message(visibility_timeout=30)
    assert (got.id, got.dequeue_count, got.inserted_on) == (sent.id, 1, sent.inserted_on)
    assert queue.receive_message() is None and queue.peek_messages() == []
    updated = queue.update_message(got, content="second", visibility_timeout=0)
    assert updated.pop_receipt != got.pop_receipt
    again = queue.receive_message()
    assert (again.content, again.dequeue_count) == ("second", 2)
    with pytest.raises(HttpResponseError) as raised:
        queue.delete_message(got)
    assert raised.value.error_code == "PopReceiptMismatch"
    queue.delete_message(again)
    with pytest.raises(ResourceNotFoundError) as raised:
        queue.delete_message(again)
    assert raised.value.error_code == "MessageNotFound"


@pytest.mark.scenario("message-visibility", "message-ttl")
def test_hidden_messages_come_back_and_expired_ones_do_not(queue):
    queue.send_message("back", visibility_timeout=1)
    queue.send_message("gone", time_to_live=1)
    for_ever = queue.send_message("for ever", time_to_live=-1)
    assert for_ever.expires_on.year == 9999
    assert [one.content for one in queue.peek_messages(5)] == ["gone", "for ever"]
    time.sleep(1.2)
    assert [one.content for one in queue.peek_messages(5)] == ["for ever", "back"]


@pytest.mark.scenario("message-pages", "message-clear")
def test_pages_of_messages_and_clearing(queue):
    for number in range(40):
        queue.send_message(str(number))
    pages = list(queue.receive_messages(messages_per_page=32, visibility_timeout=60).by_page())
    contents = [one.content for page in pages for one in page]
    assert contents == [str(number) for number in range(40)]
    queue.clear_messages()
    assert queue.get_queue_properties().approximate_message_count == 0
    queue.send_message("after")
    assert [one.content for one in queue.peek_messages(5)] == ["after"]


def test_encodings_and_sizes(queue, connection_string):
    text = QueueClient.from_connection_string(
        connection_string, queue.queue_name, retry_total=0,
        message_encode_policy=TextBase64EncodePolicy(), message_decode_policy=TextBase64DecodePolicy())
    text.send_message("\x01 any text")
    assert text.receive_message().content == "\x01 any text"
    binary = QueueClient.from_connection_string(
        connection_string, queue.queue_name, retry_total=0,
        message_encode_policy=BinaryBase64EncodePolicy(), message_decode_policy=BinaryBase64DecodePolicy())
    binary.send_message(bytes(range(256)))
    assert binary.receive_message().content == bytes(range(256))
    queue.send_message("a" * 65536)
    with pytest.raises(HttpResponseError) as raised:
        queue.send_message("a" * 65537)
    assert raised.value.error_code == "RequestBodyTooLarge"
    with pytest.raises(HttpResponseError) as raised:
        queue.send_message("\x01")
    assert raised.value.error_code == "InvalidXmlDocument"


@pytest.mark.scenario("message-options", "queue-missing")
def test_bad_options_are_refused(queue, queues):
    with pytest.raises(HttpResponseError) as raised:
        queue.send_message("a", visibility_timeout=10, time_to_live=7)
    assert raised.value.error_code == "InvalidQueryParameterValue"
    with pytest.raises(HttpResponseError) as raised:
        list(queue.receive_messages(messages_per_page=33))
    assert raised.value.error_code == "OutOfRangeQueryParameterValue"
    for name, code in (("UPPER", "InvalidResourceName"), ("ab", "OutOfRangeInput")):
        with pytest.raises(HttpResponseError) as raised:
            queues.create_queue(name)
        assert raised.value.error_code == code
    with pytest.raises(ResourceNotFoundError) as raised:
        queues.get_queue_client(new_name()).send_message("a")
    assert raised.value.error_code == "QueueNotFound"


@pytest.mark.scenario("queue-sas", "queue-sas-account")
def test_shared_access_signatures_open_what_they_name(queue, connection_string):
    account, key, endpoint = key_of(connection_string)
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    queue.send_message("a")
    token = generate_queue_sas(account, queue.queue_name, key, permission=QueueSasPermissions(read=True), expiry=later)
    reader = QueueClient(endpoint, queue.queue_name, credential=token, retry_total=0)
    assert [one.content for one in reader.peek_messages()] == ["a"]
    for refused in (lambda: reader.send_message("b"), lambda: reader.receive_message()):
        with pytest.raises(HttpResponseError) as raised:
            refused()
        assert raised.value.error_code == "AuthorizationPermissionMismatch"
    with pytest.raises(HttpResponseError) as raised:
        reader.delete_queue()
    assert raised.value.error_code == "AuthorizationFailure"
    token = generate_account_sas(
        account, key, ResourceTypes(object=True), AccountSasPermissions(add=True, process=True), later)
    worker = QueueClient(endpoint, queue.queue_name, credential=token, retry_total=0)
    worker.send_message("b")
    for message in worker.receive_messages(messages_per_page=2):
        worker.delete_message(message)
    with pytest.raises(HttpResponseError) as raised:
        worker.get_queue_properties()
    assert raised.value.error_code == "AuthorizationResourceTypeMismatch"


@pytest.mark.scenario("queue-sas-policy")
def test_stored_policies(queue, connection_string):
    account, key, endpoint = key_of(connection_string)
    now = datetime.now(timezone.utc)
    policy = AccessPolicy(QueueSasPermissions(add=True), expiry=now + timedelta(hours=1), start=now - timedelta(hours=1))
    queue.set_queue_access_policy({"writers": policy})
    assert queue.get_queue_access_policy()["writers"].permission == "a"
    token = generate_queue_sas(account, queue.queue_name, key, policy_id="writers")
    writer = QueueClient(endpoint, queue.queue_name, credential=token, retry_total=0)
    writer.send_message("a")
    queue.set_queue_access_policy({})
    with pytest.raises(HttpResponseError) as raised:
        writer.send_message("b")
    assert raised.value.error_code == "AuthenticationFailed"


@pytest.mark.scenario("queue-properties")
def test_service_properties_are_those_of_queues(queues, service):
    rule = CorsRule(["http://example.com"], ["GET"], max_age_in_seconds=7)
    queues.set_service_properties(cors=[rule])
    try:
        assert queues.get_service_properties()["cors"][0].allowed_origins == "http://example.com"
        assert not service.get_service_properties()["cors"]
    finally:
        queues.set_service_properties(cors=[])


def test_the_asynchronous_client(connection_string):
    import asyncio

    async def tour():
        async with AsyncQueueServiceClient.from_connection_string(connection_string, retry_total=0) as client:
            queue = await client.create_queue(new_name())
            await queue.send_message("a")
            contents = [one.content async for one in queue.receive_messages()]
            await queue.delete_queue()
            return contents

    assert asyncio.run(tour()) == ["a"]
