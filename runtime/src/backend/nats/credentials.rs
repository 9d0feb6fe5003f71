//! What proves who asks where that is more than a password: an nkey's seed, and a credentials file with a token of claims.

use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// A private key and what goes with it. It has no `Debug`.
#[derive(Clone)]
pub(super) struct Credentials {
    seed: [u8; 32],
    /// The claims that another key has signed, with which the key's own name isn't told.
    jwt: Option<String>,
}

const SEED: u8 = 18 << 3;
const USER: u8 = 20 << 3;
/// The kind of seed, the kind of key, the key and a checksum.
const SEED_BYTES: usize = 2 + 32 + 2;
const MOST_FILE_BYTES: usize = 64 << 10;

impl Credentials {
    /// Takes an nkey's seed: `SU..`.
    pub(super) fn seed(text: &str) -> Result<Self, &'static str> {
        const PROBLEM: &str = "the seed isn't one of a user; give all of its text, which begins with `SU`";
        let bytes = base32_decode(text.trim().as_bytes()).filter(|bytes| bytes.len() == SEED_BYTES).ok_or(PROBLEM)?;
        let (body, sum) = bytes.split_at(SEED_BYTES - 2);
        let kind = (body[0] & 7) << 5 | body[1] >> 3;
        if crc16(body).to_le_bytes() != *sum || body[0] & !7 != SEED || kind != USER {
            return Err(PROBLEM);
        }
        Ok(Self { seed: body[2..].try_into().map_err(|_| PROBLEM)?, jwt: None })
    }

    /// Takes the text of a credentials file (`.creds`), which has a user's claims and its seed.
    pub(super) fn file(text: &str) -> Result<Self, &'static str> {
        if text.len() > MOST_FILE_BYTES {
            return Err("the credentials have more than 64 KiB; give the text of a `.creds` file");
        }
        let jwt = between(text, "USER JWT").filter(|jwt| jwt.split('.').count() == 3);
        let jwt = jwt.ok_or("the credentials hold no `NATS USER JWT`; give the text of a `.creds` file")?;
        let seed = between(text, "USER NKEY SEED");
        let seed = seed.ok_or("the credentials hold no `USER NKEY SEED`; give the text of a `.creds` file")?;
        Ok(Self { jwt: Some(jwt.to_owned()), ..Self::seed(seed)? })
    }

    /// The claims, or the key's public name.
    pub(super) fn name(&self) -> (Option<String>, Option<String>) {
        match &self.jwt {
            Some(jwt) => (Some(jwt.clone()), None),
            None => (None, self.pair().map(|pair| public(pair.public_key().as_ref()))),
        }
    }

    /// Signs what the server gave for that.
    pub(super) fn sign(&self, nonce: &str) -> Option<String> {
        Some(base64_url(self.pair()?.sign(nonce.as_bytes()).as_ref()))
    }

    fn pair(&self) -> Option<Ed25519KeyPair> {
        Ed25519KeyPair::from_seed_unchecked(&self.seed).ok()
    }
}

/// The line between two lines with dashes, of which the first names what it is.
fn between<'a>(text: &'a str, what: &str) -> Option<&'a str> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.starts_with("---") && line.contains("BEGIN") && line.contains(what))?;
    lines.find(|line| !line.is_empty()).filter(|line| !line.starts_with("---"))
}

fn public(key: &[u8]) -> String {
    let mut bytes = vec![USER];
    bytes.extend_from_slice(key);
    let sum = crc16(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    base32(&bytes)
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    })
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn base32(bytes: &[u8]) -> String {
    spell(bytes, BASE32, 5)
}

fn base64_url(bytes: &[u8]) -> String {
    spell(bytes, BASE64_URL, 6)
}

/// Writes so many bits by each letter, without padding.
fn spell(bytes: &[u8], letters: &[u8], width: u32) -> String {
    let (mut text, mut held, mut count) = (String::new(), 0_u32, 0_u32);
    let letter = |bits: u32| char::from(letters[(bits & ((1 << width) - 1)) as usize]);
    for byte in bytes {
        held = held << 8 | u32::from(*byte);
        count += 8;
        while count >= width {
            count -= width;
            text.push(letter(held >> count));
        }
        held &= (1 << count) - 1;
    }
    if count > 0 {
        text.push(letter(held << (width - count)));
    }
    text
}

fn base32_decode(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut held, mut count) = (Vec::new(), 0_u32, 0_u32);
    for letter in text {
        let value = BASE32.iter().position(|known| known == letter)?;
        held = held << 5 | u32::try_from(value).ok()?;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(held >> count & 0xff).ok()?);
            held &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of NATS's documentation.
    const A_SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
    const ITS_NAME: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

    #[test]
    fn a_seed_has_the_name_that_servers_know_and_signs() {
        let Ok(credentials) = Credentials::seed(&format!(" {A_SEED}\n")) else { panic!("the seed is refused") };
        assert_eq!(credentials.name(), (None, Some(ITS_NAME.to_owned())));
        let signed = credentials.sign("a nonce").unwrap();
        assert_eq!(signed.len(), 86);
        assert!(signed.bytes().all(|letter| BASE64_URL.contains(&letter)));
    }

    #[test]
    fn bytes_are_spelt_as_rfc_4648_has_it() {
        for (bytes, in_32, in_64) in [("", "", ""), ("f", "MY", "Zg"), ("foob", "MZXW6YQ", "Zm9vYg")] {
            assert_eq!((base32(bytes.as_bytes()), base64_url(bytes.as_bytes())), (in_32.to_owned(), in_64.to_owned()));
            assert_eq!(base32_decode(in_32.as_bytes()).unwrap(), bytes.as_bytes());
        }
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn what_is_no_seed_is_refused() {
        let altered = A_SEED.replace("ACSS", "ACSA");
        let account = "SAANDLKMXL6CUS3CP52WIXBEDN6YJ545GDKC65U5JZPPV6WH6ESWUA6YAI";
        for bad in ["", "SU", &altered, ITS_NAME, &A_SEED[1..], account, "not a seed", "SUé"] {
            assert!(Credentials::seed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_has_claims_and_a_seed() {
        let file = |jwt: &str, seed: &str| {
            format!(
                "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n* IMPORTANT *\n\n\
                 -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
            )
        };
        let Ok(credentials) = Credentials::file(&file("a.b.c", A_SEED)) else { panic!("the file is refused") };
        assert_eq!(credentials.name(), (Some("a.b.c".to_owned()), None));
        for bad in [String::new(), file("a.b", A_SEED), file("a.b.c", "x"), file("", ""), A_SEED.to_owned()] {
            assert!(Credentials::file(&bad).is_err(), "{bad}");
        }
    }
}
