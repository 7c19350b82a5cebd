//! Archives for tests.

/// Returns an archive of stored members.
pub(crate) fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    let u16_of = |n: usize| u16::try_from(n).expect("small").to_le_bytes();
    let u32_of = |n: usize| u32::try_from(n).expect("small").to_le_bytes();
    for (name, data) in members {
        let crc = crc32(data).to_le_bytes();
        let sizes = [u32_of(data.len()), u32_of(data.len())].concat();
        let common =
            [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &crc, &sizes, &u16_of(name.len()), &[0, 0]]
                .concat();
        directory.extend([b"PK\x01\x02\x14\x00".as_slice(), &common, &[0; 10]].concat());
        directory.extend(u32_of(bytes.len()));
        directory.extend(name.as_bytes());
        bytes.extend([b"PK\x03\x04".as_slice(), &common, name.as_bytes(), data].concat());
    }
    let count = u16_of(members.len());
    let (start, size) = (u32_of(bytes.len()), u32_of(directory.len()));
    bytes.extend(&directory);
    bytes.extend(
        [b"PK\x05\x06\0\0\0\0".as_slice(), &count, &count, &size, &start, &[0, 0]].concat(),
    );
    bytes
}

fn crc32(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}
