package sign

import (
	"crypto/sha256"
	"slices"
)

// Signers gives those of keys that have signed the record in file, each once and in the order given. A weak key never has.
// Of a file that is no whole record, or whose body is not the one that was signed, nobody has. What lies in a blob is not
// looked at.
func Signers(file []byte, keys []PublicKey) []PublicKey {
	r, message, err := parse(file)
	if err != nil || !r.header.Blob && sha256.Sum256(r.Body()) != r.header.BodyHash {
		return nil
	}
	var out []PublicKey
	for _, k := range keys {
		if !slices.Contains(out, k) && r.verify(message, k) == nil {
			out = append(out, k)
		}
	}
	return out
}
