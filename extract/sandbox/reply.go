package sandbox

import (
	"net/http"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

type reply struct {
	status int
	header http.Header
	body   []byte
	wait   time.Duration // for a 429: how long the credential must wait

	send    func(http.ResponseWriter) // writes the answer itself, if not nil
	release func()                    // called after the body was written
}

func jsonReply(status int, v any) reply {
	return reply{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: phpStyle.append(nil, v)}
}

func htmlReply(status int, page string) reply {
	return reply{status: status, header: http.Header{"Content-Type": {"text/html; charset=UTF-8"}}, body: []byte(page)}
}

const loginPage = "<!DOCTYPE html>\n<html lang=\"en\"><head><title>Login</title></head><body><form method=\"post\" action=\"/login\">" +
	"<input type=\"hidden\" name=\"_token\" value=\"x\"><input name=\"email\"><input name=\"password\" type=\"password\"></form></body></html>\n"

const maxBody = 4 << 20

type target struct {
	method   string
	template string
	stream   string
	surface  string
	class    schemas.Class
	path     map[string]string
}
