package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// ErrBound is returned for a secret that was stored for another entry or another origin. Either a person has moved the
// secret to this entry, or the configured address has changed. Such a secret is never used. // Invariant 10
var ErrBound = errors.New("the secret was stored for another credential or another address")

// boundTo is the beginning of a stored secret. The entry and the origin for which the secret was stored come next, and
// then the secret itself.
const boundTo = "penstock-secret-1 "

type binding struct {
	Entry  string `json:"slot"` // named slot in JSON, because existing files and databases use this name
	Origin string `json:"origin,omitempty"`
}

func bind(b binding, text []byte) ([]byte, error) {
	head, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{[]byte(boundTo), head, []byte("\n"), text}, nil), nil
}

// unbind removes the beginning that bind() has added. If the text was stored for another entry or origin, it returns
// [ErrBound]. Older versions stored texts without entry and origin. Such a text is returned unchanged, and the second
// result is false.
func unbind(b binding, kept []byte) (text []byte, bound bool, err error) {
	rest, bound := bytes.CutPrefix(kept, []byte(boundTo))
	if !bound {
		return kept, false, nil
	}
	head, text, whole := bytes.Cut(rest, []byte("\n"))
	var is binding
	if err := json.Unmarshal(head, &is); err != nil || !whole || is != b {
		return nil, true, ErrBound
	}
	return text, true, nil
}

const sealedMark = "age-encryption.org/"

// Seal encrypts text with the first of the given age identities. There is one identity per line.
func Seal(keys string, text []byte) ([]byte, error) {
	all, err := Identities(keys)
	if err != nil {
		return nil, err
	}
	var to age.Recipient
	switch k := all[0].(type) {
	case *age.X25519Identity:
		to = k.Recipient()
	case *age.HybridIdentity:
		to = k.Recipient()
	default:
		return nil, errors.New("the key of the state has an unsupported type")
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, to)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	return sealed.Bytes(), err
}

// Unseal decrypts text with any of the given age identities.
func Unseal(keys string, text []byte) ([]byte, error) {
	all, err := Identities(keys)
	if err != nil {
		return nil, err
	}
	r, err := age.Decrypt(bytes.NewReader(text), all...)
	if err != nil {
		return nil, fmt.Errorf("it was encrypted with another key; keep the old key on a line below the new key: %w", err)
	}
	return io.ReadAll(r)
}

// Identities parses age identities. Its error does not include them. // Invariant 5
func Identities(keys string) ([]age.Identity, error) {
	all, err := age.ParseIdentities(strings.NewReader(keys))
	if err != nil {
		return nil, errors.New("the key of the state is not an age identity; create one with `age-keygen`")
	}
	return all, nil
}
