"""Writes legacy_encryption.json: entities encrypted as the old .NET and Java storage libraries (protocol 1.0) did.

Needs the package `cryptography`. Fixed keys and vectors, so the file is the same every time.
"""
import base64
import hashlib
import json
import pathlib

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.keywrap import aes_key_wrap

KEY = b"\x42" * 32
CONTENT_KEY = bytes(range(32))
CONTENT_VECTOR = bytes(range(100, 116))
NAMES = "_ClientEncryptionMetadata2"


def b64(data):
    return base64.b64encode(data).decode()


def seal(text, first, second, name):
    vector = hashlib.sha256(CONTENT_VECTOR + (first + second + name).encode()).digest()[:16]
    padder = padding.PKCS7(128).padder()
    plain = padder.update(text.encode()) + padder.finalize()
    encryptor = Cipher(algorithms.AES(CONTENT_KEY), modes.CBC(vector)).encryptor()
    return b64(encryptor.update(plain) + encryptor.finalize())


def entity(library, names_text, row_first):
    partition, row = "Sales", "empid_000223"
    plain = {"Salary": "5000 €", "Iban": "DE02 1203 0000 0000 2020 51"}
    first, second = (row, partition) if row_first else (partition, row)
    sealed = {name: seal(text, first, second, name) for name, text in plain.items()}
    sealed[NAMES] = seal(names_text(list(plain)), first, second, NAMES)
    details = {
        "WrappedContentKey": {"KeyId": "symm", "EncryptedKey": b64(aes_key_wrap(KEY, CONTENT_KEY)), "Algorithm": "A256KW"},
        "EncryptionAgent": {"Protocol": "1.0", "EncryptionAlgorithm": "AES_CBC_256"},
        "ContentEncryptionIV": b64(CONTENT_VECTOR),
        "KeyWrappingMetadata": {"EncryptionLibrary": library},
    }
    return {"partition": partition, "row": row, "details": json.dumps(details), "sealed": sealed, "plain": plain}


vectors = [
    entity(".NET 9.3.2", json.dumps, True),
    entity("Java 5.0.0", lambda names: "[" + ", ".join(names) + "]", False),
]
target = pathlib.Path(__file__).with_suffix(".json")
target.write_text(json.dumps(vectors, indent=1, ensure_ascii=False) + "\n")
