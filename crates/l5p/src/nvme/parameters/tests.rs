use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn what_was_encoded_is_decoded_and_nothing_else(bytes: [u8; Parameters::ENCODED_LEN]) {
        match Parameters::from_bytes(&bytes) {
            Ok(parameters) => prop_assert_eq!(parameters.to_bytes(), bytes),
            Err(invalid) => prop_assert!(invalid.flags > 7 || invalid.alignment > MAX_ALIGNMENT),
        }
    }
}
