// Package sign owns keys, the envelope of a record and the strict JSON of its body.
//
// It promises that a [Verified] can only come from [Open]: its header was signed by the key that the caller named, and its
// body is the one that the header names. The stored bytes are the signed bytes; nothing is ever encoded again to be
// verified. Parsing is bounded, strict, and accepts exactly one spelling of everything.
//
// It never decides who may sign what (that is package authority), never touches the channel's folder, and never gives out
// the bytes of a private key.
//
// A record file, ASCII with LF line ends up to the body:
//
//	ferry-record 1
//	channel <64 hex: id of the genesis record; zeros in the genesis record>
//	type <1-32 of a-z 0-9 . ->
//	writer <26 of a-z 2-7>
//	epoch <1-9999>
//	seq <1-9999999999>
//	prev sha256:<64 hex: id of the writer's previous record, of the admitting record when seq is 1, zeros in the genesis record>
//	time <2006-01-02T15:04:05.000Z, for display only>
//	need - | <feature>[,<feature>…]
//	saw - | <writer>:<epoch>:<seq>:<32 hex>[ …]
//	body <length> sha256:<64 hex>[ blob]
//	sig <16 hex: key id> <base64 of 64 bytes>           one to eight of these, each with another key id
//
//	<body>
//
// A header is at most 4 KiB. What is signed is the DSSE pre-authentication encoding of the header, up to and including the
// line feed after its body line, under [TypeRecordHeader]. The id of a record is the SHA-256 of the same bytes, so a further
// signature does not make it another record. With "blob" the body lies in a file of its own and the record file ends
// after the empty line.
//
// A record may also stand without the body that its header names: the bare form ends after the empty line. [Open] refuses it;
// [ParseBare] reads it, and what it gives proves the header alone.
//
// A [Note] is a smaller file that is part of no chain, of at most 8 KiB:
//
//	ferry-note 1
//	type <1-32 of a-z 0-9 . ->
//	body <length>
//	sig <16 hex: key id> <base64 of 64 bytes>           one to eight of these, each with another key id
//
//	<body>
//
// What is signed there is the same encoding of the body, under application/vnd.ferry. and the type.
package sign

import "errors"

// Caps of the format. Nothing larger is written, and readers refuse it before they allocate for it.
const (
	MaxHeader     = 4 << 10   // header bytes, signatures not included
	MaxRecord     = 256 << 10 // a whole record file
	MaxBody       = 192 << 10 // a body inside the record file
	MaxBlob       = 32 << 20  // a body in a file of its own
	MaxSignatures = 8         // signature lines of one record
	MaxEpoch      = 9999
	MaxSeq        = 9_999_999_999
	MaxDepth      = 16       // nesting of a JSON body
	MaxTokens     = 20_000   // keys, values and brackets of a JSON body
	MaxString     = 64 << 10 // bytes of one decoded JSON string
	MaxInteger    = 1<<53 - 1
)

// Payload types separate the kinds of signed bytes, so that a signature on one can never serve as one on another.
const (
	TypeRecordHeader = "application/vnd.ferry.record.v1+header"
)

// ErrUnverified reports that no signature of the wanted key holds, or that the body is not the one that was signed.
var ErrUnverified = errors.New("signature does not hold")

// ErrIncomplete reports that the file ends too early. It may still be arriving.
var ErrIncomplete = errors.New("file is incomplete")

// ErrMalformed reports bytes that are not in the one allowed form. They will never become acceptable.
var ErrMalformed = errors.New("malformed")
