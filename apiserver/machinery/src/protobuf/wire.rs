//! Protobuf wire format: numbered fields of four kinds.

use super::Malformed;

/// Value of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Datum<'a> {
    /// A varint.
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
    /// Eight or four bytes; no message here has such a field.
    Fixed,
}

impl<'a> Datum<'a> {
    pub(super) fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(Malformed("wrong wire type, a varint is wanted".to_owned())),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => {
                Err(Malformed("wrong wire type, a length and bytes are wanted".to_owned()))
            }
        }
    }

    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("text is not UTF-8".to_owned()))
    }
}

/// Reader of the fields of one message.
#[derive(Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the number and the value of the next field, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Datum<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let datum = match tag & 7 {
            0 => Datum::Number(self.varint()?),
            1 => self.take(8).map(|_| Datum::Fixed)?,
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| unexpected_end())?;
                Datum::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Datum::Fixed)?,
            other => return Err(Malformed(format!("illegal wireType {other}"))),
        };
        match tag >> 3 {
            0 => Err(Malformed("illegal tag 0".to_owned())),
            number => Ok(Some((number, datum))),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(unexpected_end)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a varint: seven bits per byte, the lowest first, at most ten bytes.
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or_else(unexpected_end)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed("integer overflow".to_owned()))
    }
}

/// Writer of the fields of one message.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Creates a writer that starts with `prefix`.
    pub(crate) fn starting_with(prefix: &[u8]) -> Self {
        Self(prefix.to_vec())
    }

    pub(crate) fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    pub(crate) fn bytes(&mut self, field: u64, value: &[u8]) {
        self.begin(field, value.len(), value);
    }

    /// Writes a field of this length, of which `first` are the first bytes.
    pub(crate) fn begin(&mut self, field: u64, length: usize, first: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(u64::try_from(length).unwrap_or(u64::MAX));
        self.0.extend_from_slice(first);
    }

    pub(crate) fn double(&mut self, field: u64, value: f64) {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut number: u64) {
        loop {
            let [low, ..] = number.to_le_bytes();
            number >>= 7;
            if number == 0 {
                self.0.push(low & 0x7f);
                return;
            }
            self.0.push(low | 0x80);
        }
    }
}

fn unexpected_end() -> Malformed {
    Malformed("unexpected EOF".to_owned())
}
