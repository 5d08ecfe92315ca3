//! Every operation of the queue service × every kind of SAS × every set of permissions, against the table of needs in
//! the service's documentation.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod support;

use support::{Request, account, later, now};
use tavola_auth::{AccountSas, Caller, ServiceSas, authorize, sign_account_sas, sign_service_sas};
use tavola_model::{
    AccessPolicy, Command, ErrorCode, GetMessages, ListQueues, MessageRef, Metadata, PeekMessages,
    PutMessage, QueueCommand, QueueName, SignedIdentifier, StorageService, UpdateMessage,
};

/// What an operation needs, as data: resource type and letters of an account SAS, letters of a queue SAS, one of
/// which is enough; empty for never.
struct Operation {
    command: fn(QueueName) -> QueueCommand,
    resource_type: char,
    account_letters: &'static str,
    service_letters: &'static str,
}

fn message(queue: QueueName) -> MessageRef {
    MessageRef { queue, id: None, receipt: None }
}

const OPERATIONS: [Operation; 13] = [
    operation(|_| QueueCommand::ListQueues(ListQueues::default()), 's', "l", ""),
    operation(|queue| QueueCommand::CreateQueue(queue, Metadata::default()), 'c', "cw", ""),
    operation(QueueCommand::DeleteQueue, 'c', "d", ""),
    operation(QueueCommand::GetQueueMetadata, 'c', "r", "r"),
    operation(|queue| QueueCommand::SetQueueMetadata(queue, Metadata::default()), 'c', "w", ""),
    operation(QueueCommand::GetQueueAcl, 'c', "", ""),
    operation(|queue| QueueCommand::SetQueueAcl(queue, Vec::new()), 'c', "", ""),
    operation(
        |queue| {
            let text = String::new();
            QueueCommand::PutMessage(PutMessage { queue, text, hidden_seconds: 0, life_seconds: None })
        },
        'o',
        "a",
        "a",
    ),
    operation(
        |queue| QueueCommand::GetMessages(GetMessages { queue, count: 1, hidden_seconds: 1 }),
        'o',
        "p",
        "p",
    ),
    operation(|queue| QueueCommand::PeekMessages(PeekMessages { queue, count: 1 }), 'o', "r", "r"),
    operation(
        |queue| {
            let message = message(queue);
            QueueCommand::UpdateMessage(UpdateMessage { message, hidden_seconds: 0, text: None })
        },
        'o',
        "u",
        "u",
    ),
    operation(|queue| QueueCommand::DeleteMessage(message(queue)), 'o', "p", "p"),
    operation(QueueCommand::ClearMessages, 'o', "d", "p"),
];

const fn operation(
    command: fn(QueueName) -> QueueCommand,
    resource_type: char,
    account_letters: &'static str,
    service_letters: &'static str,
) -> Operation {
    Operation { command, resource_type, account_letters, service_letters }
}

fn subsets(letters: &str) -> Vec<String> {
    (1..1u32 << letters.len())
        .map(|bits| {
            let chosen = letters.chars().enumerate().filter(|(index, _)| bits & (1 << index) != 0);
            chosen.map(|(_, letter)| letter).collect()
        })
        .collect()
}

fn caller(token: &str, path: &str) -> Caller {
    let mut request = Request::get(path).with_query(token);
    request.service = StorageService::Queue;
    request.authenticate().unwrap()
}

fn check(
    caller: &Caller,
    policy: Option<&SignedIdentifier>,
    queue: &str,
    operation: &Operation,
) -> Result<(), ErrorCode> {
    let command = Command::Queue((operation.command)(QueueName::parse(queue).unwrap()));
    authorize(caller, policy, command, now()).map(|_| ()).map_err(|error| error.code)
}

fn has_one(permissions: &str, letters: &str) -> bool {
    letters.chars().any(|letter| permissions.contains(letter))
}

#[test]
fn a_queue_sas_opens_exactly_what_its_letters_say_of_its_queue() {
    for permissions in subsets("raup") {
        let sas = ServiceSas {
            resource: "orders",
            permissions: &permissions,
            expiry: Some(later(60)),
            ..ServiceSas::default()
        };
        let token = sign_service_sas(&account(), StorageService::Queue, &sas).unwrap();
        let caller = caller(&token, "/acct/orders/messages");
        for operation in &OPERATIONS {
            let expected = match operation.service_letters {
                "" => Err(ErrorCode::AuthorizationFailure),
                letters if !has_one(&permissions, letters) => Err(ErrorCode::AuthorizationPermissionMismatch),
                _ => Ok(()),
            };
            assert_eq!(check(&caller, None, "orders", operation), expected, "sp={permissions}");
            let elsewhere = check(&caller, None, "others", operation);
            assert_eq!(elsewhere, Err(ErrorCode::AuthorizationFailure), "sp={permissions}");
        }
    }
}

#[test]
fn a_queue_sas_holds_for_no_other_path() {
    let sas = ServiceSas {
        resource: "orders",
        permissions: "raup",
        expiry: Some(later(60)),
        ..ServiceSas::default()
    };
    let token = sign_service_sas(&account(), StorageService::Queue, &sas).unwrap();
    for path in ["/acct/others/messages", "/acct/", "/acct/Orders/messages"] {
        let mut request = Request::get(path).with_query(&token);
        request.service = StorageService::Queue;
        assert_eq!(request.outcome(), "AuthenticationFailed", "{path}");
    }
}

#[test]
fn an_account_sas_opens_exactly_what_its_services_types_and_letters_say() {
    for services in ["q", "bqt", "bt"] {
        for resource_types in subsets("sco") {
            for permissions in subsets("rwdlacup") {
                let sas = AccountSas {
                    services,
                    resource_types: &resource_types,
                    permissions: &permissions,
                    expiry: Some(later(60)),
                    ..AccountSas::default()
                };
                let token = sign_account_sas(&account(), &sas).unwrap();
                let caller = caller(&token, "/acct/orders/messages");
                for operation in &OPERATIONS {
                    let expected = if !services.contains('q') {
                        Err(ErrorCode::AuthorizationServiceMismatch)
                    } else if operation.account_letters.is_empty() {
                        Err(ErrorCode::AuthorizationFailure)
                    } else if !resource_types.contains(operation.resource_type) {
                        Err(ErrorCode::AuthorizationResourceTypeMismatch)
                    } else if !has_one(&permissions, operation.account_letters) {
                        Err(ErrorCode::AuthorizationPermissionMismatch)
                    } else {
                        Ok(())
                    };
                    let result = check(&caller, None, "orders", operation);
                    assert_eq!(result, expected, "ss={services} srt={resource_types} sp={permissions}");
                }
            }
        }
    }
}

#[test]
fn a_stored_policy_gives_what_the_token_leaves_out() {
    let sas = ServiceSas { resource: "orders", policy_id: "workers", ..ServiceSas::default() };
    let token = sign_service_sas(&account(), StorageService::Queue, &sas).unwrap();
    let caller = caller(&token, "/acct/orders/messages");
    assert_eq!(caller.stored_policy(), Some(("orders", "workers")));
    let limits = AccessPolicy { start: None, expiry: Some(later(60)), permission: Some("p".into()) };
    let policy = SignedIdentifier { id: "workers".into(), policy: Some(limits) };
    for operation in &OPERATIONS {
        let expected = match operation.service_letters {
            "" => Err(ErrorCode::AuthorizationFailure),
            "p" => Ok(()),
            _ => Err(ErrorCode::AuthorizationPermissionMismatch),
        };
        assert_eq!(check(&caller, Some(&policy), "orders", operation), expected);
        assert_eq!(check(&caller, None, "orders", operation), Err(ErrorCode::AuthenticationFailed));
    }
}
