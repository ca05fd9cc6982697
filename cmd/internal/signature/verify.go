package signature

import (
	"encoding/hex"
	"time"
)

type reading struct {
	fields
	decoded [maxSignatures][]byte
}

// verify checks a delivery with one scheme: first the form of the header, then the signature with every key, then
// the time.
func (c *compiled) verify(now time.Time, d *Delivery, s *scratch) (Verdict, Reason) {
	s.buf, s.segments = s.buf[:0], s.segments[:0]
	defer s.forget()
	var r reading
	if reason := c.read(d, s, &r); reason != "" {
		return Verdict{}, reason
	}
	key, reason := c.authentic(now, s, &r)
	if reason != "" {
		return Verdict{}, reason
	}
	verdict := Verdict{Scheme: c.scheme.Name, SecretLabel: key.Label}
	if c.identified {
		verdict.EventID = r.id
	}
	if c.ts.pointer != nil && !c.signsTS {
		r.ts = lookUp(d.Body, c.ts.pointer)
	}
	if c.id.pointer != nil && !c.signsID {
		verdict.EventID = lookUp(d.Body, c.id.pointer)
	}
	switch {
	case c.ts.from == "":
		return verdict, ""
	case r.ts == "":
		return Verdict{}, Incomplete
	}
	// Check the time after the signature: a forger must learn nothing when a delivery is refused.
	if verdict.Time, reason = c.scheme.Timestamp.judge(now, r.ts); reason != "" {
		return Verdict{}, reason
	}
	if verdict.EventID == "" {
		verdict.EventID = bodyIdentity(d.Body, verdict.Time)
	}
	return verdict, ""
}

// forget drops the references to the delivery. Otherwise the pool would keep the delivery's memory.
func (s *scratch) forget() { clear(s.segments) }

func (c *compiled) read(d *Delivery, s *scratch, r *reading) Reason {
	value, reason := single(d.Header, c.header)
	if reason != "" {
		return reason
	}
	if !c.scheme.Parse.parse(value, &r.fields) {
		return Malformed
	}
	least, most := c.scheme.Algorithm.lengths()
	for i, text := range r.sigs[:r.n] {
		from := len(s.buf)
		var ok bool
		s.buf, ok = c.scheme.Encoding.appendDecoded(s.buf, text)
		r.decoded[i] = s.buf[from:len(s.buf):len(s.buf)]
		if n := len(r.decoded[i]); !ok || n < least || n > most {
			return Malformed
		}
	}
	// If the time or the id is only within the signed body, it is read later, after the signature is verified.
	if c.ts.pointer == nil || c.signsTS {
		if r.ts, reason = c.ts.read(d, r.ts); reason != "" {
			return reason
		}
	}
	if c.id.pointer == nil || c.signsID {
		if r.id, reason = c.id.read(d, r.id); reason != "" {
			return reason
		}
	}
	return c.assemble(c.content, d, s, r)
}

func (c *compiled) assemble(parts []segment, d *Delivery, s *scratch, r *reading) Reason {
	for i := range parts {
		p := &parts[i]
		switch p.kind {
		case Fixed:
			s.segments = append(s.segments, p.fixed)
		case Body:
			s.segments = append(s.segments, d.Body)
		case SHA256Hex, SHA256Raw:
			from := len(s.segments)
			if reason := c.assemble(p.of, d, s, r); reason != "" {
				return reason
			}
			sum := digestOf(s.segments[from:])
			s.segments = s.segments[:from]
			if p.kind == SHA256Raw {
				s.add(string(sum[:]))
				continue
			}
			s.add(hex.EncodeToString(sum[:]))
		default:
			text, reason := c.text(p, d, r)
			if reason != "" {
				return reason
			}
			s.add(text)
		}
	}
	return ""
}

func (s *scratch) add(text string) {
	from := len(s.buf)
	s.buf = append(s.buf, text...)
	s.segments = append(s.segments, s.buf[from:len(s.buf):len(s.buf)])
}

// text returns the value of a part of the content. If the value is empty, the reason is Incomplete. Only the query may
// be empty.
func (c *compiled) text(p *segment, d *Delivery, r *reading) (string, Reason) {
	var text string
	switch p.kind {
	case TS:
		text = r.ts
	case ID:
		text = r.id
	case KeyID:
		text = r.keyID
	case Method:
		text = d.Method
	case Path:
		text = d.Path
	case Query:
		return d.Query, ""
	case URL:
		if text = c.scheme.PublicURL; d.Query != "" {
			text += "?" + d.Query
		}
	case HeaderOf:
		value, reason := single(d.Header, p.header)
		if reason == Malformed {
			return "", Malformed
		}
		text = value
	}
	if text == "" {
		return "", Incomplete
	}
	return text, ""
}

// authentic tries every key with every signature, and returns the key that matches. It also tries expired keys.
// If only an expired key matches, the reason is Expired, so that the operator learns that the sender still uses
// that key.
func (c *compiled) authentic(now time.Time, s *scratch, r *reading) (usable, Reason) {
	var by usable
	reason := Mismatch
	for _, k := range c.keys {
		match := k.matches(s, r.decoded[:r.n])
		over := !k.NotAfter.IsZero() && !now.Before(k.NotAfter)
		switch {
		case match && !over && reason != "":
			by, reason = k, ""
		case match && over && reason == Mismatch:
			reason = Expired
		}
	}
	return by, reason
}
