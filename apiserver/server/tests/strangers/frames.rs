//! Frames of HTTP/2, as a hostile client writes them.

/// Begin of a connection: the preface and an empty SETTINGS.
pub(crate) fn begin() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Header block of `GET /`: fields of the static table, and the authority.
fn get() -> Vec<u8> {
    let authority = b"127.0.0.1";
    [&[0x82, 0x87, 0x84, 0x41, u8::try_from(authority.len()).unwrap()], &authority[..]].concat()
}

/// Returns a whole request of a stream.
pub(crate) fn request(stream: u32) -> Vec<u8> {
    const END_STREAM_AND_HEADERS: u8 = 5;
    frame(1, END_STREAM_AND_HEADERS, stream, &get())
}

/// Returns a request of a stream, whose headers are not complete.
pub(crate) fn open_request(stream: u32) -> Vec<u8> {
    frame(1, 0, stream, &get())
}

/// Returns more headers of a request, which are not the last. `fields`: their number.
pub(crate) fn continuation(stream: u32, fields: usize) -> Vec<u8> {
    let field = [&[0, 1, b'a', 100][..], &[b'b'; 100]].concat();
    frame(9, 0, stream, &field.repeat(fields))
}

/// Returns the reset of a stream by its client.
pub(crate) fn reset(stream: u32) -> Vec<u8> {
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    frame(3, 0, stream, &CANCEL)
}
