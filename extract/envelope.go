package extract

import (
	"cmp"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/wire"
)

func judge(d *jsondoc.Doc) (class wire.Class, message string, ok bool) {
	f := flagsOf(d)
	if !f.failed && !f.bare {
		return 0, "", true
	}
	message = wire.ErrorMessage(d.Bytes())
	class = cmp.Or(wire.MessageClass(message), wire.Invalid)
	return class, message, !f.failed && class == wire.Invalid
}

type flags struct {
	failed bool
	bare   bool // the answer has a message and nothing else: {"message":"Unauthenticated."}
}

// flagsOf finds out whether the answer reports a failure. An object with an id and more than four members is a record,
// so its status says nothing about the answer.
func flagsOf(d *jsondoc.Doc) flags {
	var f flags
	var n int
	var id, said, payload, complaint, filled, zero bool
	if !d.IsObject(d.Root()) {
		return f
	}
	for name, v := range d.Members(d.Root()) {
		n++
		filled = filled || v.Nested() && !d.IsEmpty(v)
		switch string(name) {
		case "success", "is_success":
			f.failed = f.failed || d.IsFalse(v)
		case "status":
			zero = string(d.Raw(v)) == "0"
			f.failed = f.failed || !zero && isFailureStatus(d, v)
		case "error":
			complaint = !d.IsEmpty(v) && !d.IsFalse(v)
		case "message":
			said = d.Text(v) != ""
			payload = payload || v.Nested()
		case "data", "result", "payload", "response", "items", "results":
			payload = payload || !d.IsEmpty(v)
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

func isFailureStatus(d *jsondoc.Doc, v jsondoc.Value) bool {
	switch strings.ToLower(strings.Trim(string(d.Raw(v)), `"`)) {
	case "false", "0", "error", "fail", "failed", "failure":
		return true
	}
	return false
}
