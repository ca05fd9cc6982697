package board

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

// Audit is a record of an action at the dashboard or its API, or of a refused attempt.
type Audit struct {
	At      time.Time `json:"at"`
	Who     string    `json:"who" jsonschema:"description=Name of the token; empty for a wrong token\\, local if no token is configured."`
	What    string    `json:"what"`
	Object  string    `json:"object,omitempty" jsonschema:"description=Pipeline\\, stream or source of the action."`
	From    string    `json:"from" jsonschema:"description=Address of the connection\\, and the one in the headers of a proxy."`
	Outcome string    `json:"outcome" jsonschema:"description=done\\, or the error."`
	Refused bool      `json:"refused,omitempty" jsonschema:"description=The token is wrong\\, or its role does not allow the action."`
}

// Tone returns the severity of a record.
func (a Audit) Tone() Tone {
	switch {
	case a.Refused:
		return ToneAttention
	case a.Outcome != auditDone:
		return ToneFailing
	}
	return ToneOK
}

const auditDone = "done"

const auditTime = 5 * time.Second

// audit writes a record to the audit log, even if the visitor has disconnected.
func (b *Board) audit(r *http.Request, who access.Identity, what, object string, err error) {
	a := Audit{At: b.Clock(), Who: who.Name, What: what, Object: object, From: access.From(r), Outcome: auditDone}
	if err != nil {
		a.Outcome = err.Error()
		if a.Refused = errors.Is(err, access.ErrRole); a.Refused {
			a.Outcome = "the role of this token does not allow it"
		}
	}
	if b.Record == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditTime)
	defer cancel()
	if err := b.Record(ctx, a); err != nil {
		b.Log.Error("write audit log", "who", a.Who, "what", a.What, "object", a.Object, "from", a.From, "outcome", a.Outcome, "error", err)
	}
}

func objectOf(r *http.Request) string {
	var object string
	for _, kind := range []string{"pipeline", "source", "stream"} {
		if name := r.PathValue(kind); name != "" {
			if object != "" {
				object += ", "
			}
			object += kind + " " + name
		}
	}
	return object
}
