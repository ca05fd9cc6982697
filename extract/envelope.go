package extract

import (
	"cmp"
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
)

func judge(d *doc) (class wire.Class, message string, ok bool) {
	f := d.flags()
	if !f.failed && !f.bare {
		return 0, "", true
	}
	message = wire.ErrorMessage(d.b)
	class = cmp.Or(wire.MessageClass(message), wire.Invalid)
	return class, message, !f.failed && class == wire.Invalid
}

type flags struct {
	failed bool
	bare   bool // the answer has a message and nothing else: {"message":"Unauthenticated."}
}

// flags finds out whether the answer reports a failure. An object with an id and more than four members is a record,
// so its status says nothing about the answer.
func (d *doc) flags() flags {
	var f flags
	var n int
	var id, said, payload, complaint, filled, zero bool
	if !d.isObject(d.root()) {
		return f
	}
	for name, v := range d.members(d.root()) {
		n++
		filled = filled || v.node >= 0 && !d.void(v)
		switch string(name) {
		case "success", "is_success":
			f.failed = f.failed || d.isFalse(v)
		case "status":
			zero = string(d.raw(v)) == "0"
			f.failed = f.failed || !zero && d.isFailureStatus(v)
		case "error":
			complaint = !d.void(v) && !d.isFalse(v)
		case "message":
			said = d.text(v) != ""
			payload = payload || v.node >= 0
		case "data", "result", "payload", "response", "items", "results":
			payload = payload || !d.void(v)
		case "id":
			id = true
		}
	}
	// Status 0 is a success if there is a payload and no complaint.
	f.failed = f.failed || zero && (!filled || said || complaint)
	envelope := !id || n <= 4
	f.failed = envelope && (f.failed || complaint)
	f.bare = said && !id && !payload && n <= 3
	return f
}

func (d *doc) isFalse(v value) bool {
	switch strings.ToLower(strings.Trim(string(d.raw(v)), `"`)) {
	case "false", "0":
		return true
	}
	return false
}

func (d *doc) isFailureStatus(v value) bool {
	switch strings.ToLower(strings.Trim(string(d.raw(v)), `"`)) {
	case "false", "0", "error", "fail", "failed", "failure":
		return true
	}
	return false
}
