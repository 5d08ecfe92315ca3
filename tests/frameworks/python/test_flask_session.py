"""Flask with sessions kept, encrypted, in a table by flask-session-azure."""

import flask
import pytest
from flask_session_azure import storage_account_interface


def make_app(connection_string, **options):
    app = flask.Flask("shop")
    app.secret_key = "a secret that is long enough"
    app.session_interface = storage_account_interface(connection_string, **options)

    @app.post("/basket/<item>")
    def add(item):
        flask.session["items"] = [*flask.session.get("items", []), item]
        return {}

    @app.get("/basket")
    def basket():
        return {"items": flask.session.get("items", [])}

    @app.post("/leave")
    def leave():
        flask.session.clear()
        return {}

    return app


@pytest.fixture
def shop(connection_string):
    return make_app(connection_string, table_name="FlaskSessions")


def items(client):
    return client.get("/basket").json["items"]


def test_a_basket_is_kept_from_request_to_request(shop):
    with shop.test_client() as client:
        client.post("/basket/apple")
        client.post("/basket/p%C3%A4r")
        assert items(client) == ["apple", "pär"]


def test_a_basket_outlives_the_process_that_filled_it(shop, connection_string):
    with shop.test_client() as client:
        client.post("/basket/apple")
        cookie = client.get_cookie("session").value
    with make_app(connection_string, table_name="FlaskSessions").test_client() as later:
        later.set_cookie("session", cookie)
        assert items(later) == ["apple"]


def test_baskets_are_kept_apart(shop):
    with shop.test_client() as one, shop.test_client() as other:
        one.post("/basket/apple")
        assert items(other) == []


def test_a_basket_that_was_left_is_empty(shop):
    with shop.test_client() as client:
        client.post("/basket/apple")
        cookie = client.get_cookie("session").value
        client.post("/leave")
        client.set_cookie("session", cookie)
        assert items(client) == []


def test_a_secret_that_does_not_fit_opens_nothing(shop, connection_string):
    with shop.test_client() as client:
        client.post("/basket/apple")
        cookie = client.get_cookie("session").value
    thief = make_app(connection_string, table_name="FlaskSessions")
    thief.secret_key = "another secret, long enough"
    with thief.test_client() as client:
        client.set_cookie("session", cookie)
        assert items(client) == []
