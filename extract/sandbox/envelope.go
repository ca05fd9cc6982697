package sandbox

import (
	"net/http"
	"strings"
)

type dialect int

const (
	d0  dialect = iota // no envelope
	d1                 // {"success":true,"message":…,"data":…}
	d2                 // {"status":"success","data":…}
	d2m                // {"status":"success","message":…}: the payload is in message instead of data
	d3                 // {"status":1,"data":…}
	d4                 // {"is_success":true,"message":null,"data":…}
	dV2                // the versioned surface: no envelope, errors with a code
)

func (d dialect) wrap(says string, s served) any {
	if s.whole {
		return s.data
	}
	var o object
	switch d {
	case d1:
		o = obj("success", true, "message", says, "data", s.data)
	case d2:
		o = obj("status", "success", "data", s.data)
	case d2m:
		o = obj("status", "success", "message", s.data)
	case d3:
		o = obj("status", 1, "data", s.data)
		if says != "" {
			o = obj("status", 1, "message", says, "data", s.data)
		}
	case d4:
		o = obj("is_success", true, "message", nil, "data", s.data)
	default:
		if len(s.beside) == 0 {
			return s.data
		}
		o = obj("data", s.data)
	}
	return append(o, s.beside...)
}

// refusal is the reason why a request is refused. Each dialect has its own form for it.
type refusal struct {
	kind   refusalKind
	what   string
	fields []string
}

type refusalKind int

const (
	missing refusalKind = iota
	denied
	moduleOff
	invalid
	wentWrong
	readOnlyKey
)

// Error returns the message of the platform's module.
func (t *refusal) Error() string { return t.message() }

func (t *refusal) message() string {
	switch t.kind {
	case missing:
		return t.what + " Not Found"
	case denied:
		return "Permission denied"
	case moduleOff:
		return t.what + " Module Not Active!"
	case invalid:
		return "The " + strings.ReplaceAll(t.fields[0], "_", " ") + " field is required."
	case readOnlyKey:
		return "This action is unauthorized."
	}
	return "Something went wrong"
}

func (d dialect) fail(t *refusal) reply {
	if t.kind == readOnlyKey {
		if d == dV2 {
			return v2Error(http.StatusForbidden, "read_only_key", "This API key can only read.")
		}
		return jsonReply(http.StatusForbidden, obj("message", t.message()))
	}
	switch d {
	case d1:
		return failTrait(t)
	case d2, d2m:
		return failAddOn(t)
	case d3:
		return failStatus(t)
	case d4:
		return jsonReply(http.StatusOK, obj("is_success", false, "message", t.message(), "data", nil))
	case dV2:
		return failVersioned(t)
	}
	return failFramework(t)
}

func failTrait(t *refusal) reply {
	switch t.kind {
	case invalid:
		errors := object{}
		for _, f := range t.fields {
			one := refusal{kind: invalid, fields: []string{f}}
			errors = errors.put(f, list{one.message()})
		}
		return jsonReply(http.StatusUnprocessableEntity, obj("success", false, "message", "Validation error", "errors", errors))
	case missing:
		return jsonReply(http.StatusBadRequest, obj("success", false, "message", t.message(), "errors", 404))
	case moduleOff:
		return jsonReply(http.StatusBadRequest, obj("success", false, "message", "error", "errors", t.message()))
	}
	return jsonReply(http.StatusBadRequest, obj("success", false, "message", t.message(), "errors", nil))
}

func failAddOn(t *refusal) reply {
	switch t.kind {
	case missing:
		return jsonReply(http.StatusNotFound, obj("error", t.message()+"!"))
	case wentWrong:
		return jsonReply(http.StatusInternalServerError, obj("message", "Server Error"))
	}
	return jsonReply(http.StatusOK, obj("status", "error", "message", t.message()))
}

func failStatus(t *refusal) reply {
	switch t.kind {
	case invalid:
		return jsonReply(http.StatusForbidden, obj("status", 0, "message", t.message()))
	case wentWrong:
		return jsonReply(http.StatusOK, obj("status", 0, "message", "something went wrong!!!"))
	}
	return jsonReply(http.StatusOK, obj("status", 0, "message", t.message()))
}

func failVersioned(t *refusal) reply {
	switch t.kind {
	case missing:
		return v2Error(http.StatusNotFound, "resource_missing", "No such "+t.what+".")
	case invalid:
		return v2Error(http.StatusBadRequest, "invalid_request", t.message())
	case denied, moduleOff:
		return v2Error(http.StatusForbidden, "forbidden", t.message())
	}
	return v2Error(http.StatusInternalServerError, "server_error", "An error occurred on our side.")
}

func failFramework(t *refusal) reply {
	switch t.kind {
	case missing:
		return jsonReply(http.StatusNotFound, obj("message", `No query results for model [App\Models\`+t.what+`]`))
	case denied, moduleOff:
		return jsonReply(http.StatusForbidden, obj("message", "This action is unauthorized."))
	case invalid:
		errors := object{}
		for _, f := range t.fields {
			one := refusal{kind: invalid, fields: []string{f}}
			errors = errors.put(f, list{one.message()})
		}
		return jsonReply(http.StatusUnprocessableEntity, obj("message", t.message(), "errors", errors))
	}
	return jsonReply(http.StatusInternalServerError, obj("message", "Server Error"))
}

func v2Error(status int, code, message string) reply {
	return jsonReply(status, obj("code", code, "message", message))
}
