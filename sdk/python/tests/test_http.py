"""The HTTP parser, fed in pieces of every size, and with what no server should send."""

import pytest

from cella._http import MAX_HEAD, Lines, Response, head_bytes, header_line, quote, target
from cella.errors import ProtocolError

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;name=value\r\n \r\n"
    b"5\r\nworld\r\n0\r\nTrailer: x\r\n\r\n"
)
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN


def parse(data, size):
    response, body = Response(), b""
    for start in range(0, len(data), size):
        response.feed(data[start : start + size])
        body += response.take()
    return response, body


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "data, body", [(PLAIN, b"hello"), (CHUNKED, b"hello world"), (CONTINUED, b"hello")], ids=["plain", "chunked", "100"]
)
def test_response_is_parsed_equally_from_pieces_of_any_size(data, body, size):
    response, found = parse(data, size)
    assert (response.status, found, response.complete, response.keep_alive) == (200, body, True, True)


def test_response_without_a_length_ends_with_its_connection():
    response, _ = parse(b"HTTP/1.1 200 OK\r\n\r\nabc", 4)
    assert not response.complete
    response.feed(b"")
    assert response.complete and not response.keep_alive


def test_response_without_a_body_is_complete_after_its_head():
    response, body = parse(b"HTTP/1.1 204 No Content\r\n\r\n", 1000)
    assert (response.status, body, response.complete) == (204, b"", True)


@pytest.mark.parametrize("data", [PLAIN, CHUNKED])
def test_surplus_bytes_prevent_reuse_of_the_connection(data):
    response, _ = parse(data + b"HTTP/1.1 200 OK\r\n", 1000)
    assert response.complete and not response.keep_alive


def test_connection_close_prevents_reuse():
    response, _ = parse(PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), 1000)
    assert response.complete and not response.keep_alive


@pytest.mark.parametrize("cut", [0, 10, 40, len(PLAIN) - 1])
def test_truncated_response_raises_eof(cut):
    response = Response()
    if cut:
        response.feed(PLAIN[:cut])
    with pytest.raises(EOFError):
        response.feed(b"")


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 1000,
        b"H" * (MAX_HEAD + 1),
    ],
)
def test_rejects_malformed_response(data):
    with pytest.raises(ProtocolError):
        parse(data, 5)


def test_large_body_in_small_pieces_is_complete():
    size = 8 << 20
    body = b"x" * size
    response, found = Response(), []
    response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
    for start in range(0, size, 4096):
        response.feed(body[start : start + 4096])
    found = response.take()
    assert response.complete and found == body


def test_lines_are_complete_and_empty_ones_are_skipped():
    lines = Lines()
    assert lines.feed(b'{"a"') == []
    assert lines.feed(b':1}\n\n{"b":2}\n{"c') == [b'{"a":1}', b'{"b":2}']
    assert lines.feed(b'":3}\n') == [b'{"c":3}']


def test_request_head_has_lines_and_content_length():
    head = head_bytes("POST", "/x", header_line("Host", "a"), 2, header_line("Accept", "b"))
    assert head == b"POST /x HTTP/1.1\r\nHost: a\r\nAccept: b\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize("value", ["a\r\nEvil: 1", "a\nb", "a\0b"])
def test_rejects_line_break_in_a_header(value):
    with pytest.raises(ValueError):
        header_line("Authorization", value)


def test_file_names_are_percent_encoded():
    assert quote("a b/ü?#%.txt") == "a%20b%2F%C3%BC%3F%23%25.txt"
    assert quote("\udcff") == "%FF"
    assert target("/x", {"path": "a&b=c", "none": None, "n": 3}) == "/x?path=a%26b%3Dc&n=3"
