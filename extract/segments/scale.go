package segments

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// oldest is how old the first record of a list can be, in years, if its key holds a time.
const oldest = 30

// leastKeys is how many keys must be in order before the list counts as sorted by them.
const leastKeys = 5

// scale places the keys of a list on a line. The first key of the list is at 0, and later keys are at larger places.
// Two keys may have the same place.
type scale struct {
	form   form
	origin uint64 // number of the first key
	falls  bool   // the list begins with the largest key
}

// form is one way to write keys, such as whole numbers or UUIDs. It relates each key to a number.
type form interface {
	// number returns a number that grows with the key.
	number(key string) (n uint64, ok bool)

	// key returns the key with the number n. There may be no record with this key.
	key(n uint64) (key string, ok bool)

	// time returns the number of a key that was made at the given time. The result ok is false if keys do not hold
	// times.
	time(at time.Time) (n uint64, ok bool)
}

// scaleOf returns the scale of a list that begins with the given keys. It returns nil if the keys have no known form,
// or are not strictly in order.
func scaleOf(keys []string) *scale {
	if len(keys) < leastKeys {
		return nil
	}
	f := formOf(keys)
	if f == nil {
		return nil
	}
	first, _ := f.number(keys[0])
	last, ok := f.number(keys[len(keys)-1])
	if !ok || first == last {
		return nil
	}
	s := &scale{form: f, origin: first, falls: last < first}
	if !s.inOrder("", keys) {
		return nil
	}
	return s
}

func formOf(keys []string) form {
	for _, f := range []form{decimal{}, hexOf(keys), ulidOf(keys), momentOf(keys[0])} {
		if _, ok := f.number(keys[0]); ok {
			return f
		}
	}
	return nil
}

// place returns the place of a key. The result ok is false if the key has another form, or if it is before the first
// key.
func (s *scale) place(key string) (x uint64, ok bool) {
	n, ok := s.form.number(key)
	if s.falls {
		return s.origin - n, ok && n <= s.origin
	}
	return n - s.origin, ok && n >= s.origin
}

// key returns the key at place x.
func (s *scale) key(x uint64) (key string, ok bool) {
	if s.falls {
		if x > s.origin {
			return "", false
		}
		return s.form.key(s.origin - x)
	}
	if x > math.MaxUint64-s.origin {
		return "", false
	}
	return s.form.key(s.origin + x)
}

// before reports whether key a comes before key b in the list. Both keys must have a place.
func (s *scale) before(a, b string) bool {
	x, _ := s.place(a)
	y, _ := s.place(b)
	switch {
	case x != y:
		return x < y
	case s.falls:
		return a > b
	}
	return a < b
}

// latest returns the place of the last possible key. For falling whole numbers, this is the place of the key 0. For
// rising times, it is the place of the time now. For other keys, it is math.MaxUint64.
func (s *scale) latest(now time.Time) uint64 {
	if _, ok := s.form.(decimal); ok {
		if s.falls {
			return s.origin
		}
		return math.MaxUint64
	}
	if n, ok := s.form.time(now); ok && s.isTime(now) {
		if s.falls {
			return math.MaxUint64
		}
		return n - s.origin
	}
	return math.MaxUint64
}

// isTime reports whether the first key is a time in the last [oldest] years before now.
func (s *scale) isTime(now time.Time) bool {
	n, _ := s.form.time(now)
	old, ok := s.form.time(now.AddDate(-oldest, 0, 0))
	return ok && s.origin >= old && s.origin <= n
}

// inOrder reports whether all keys have a place, and each key is after the key before it. The first key must be after
// prev, unless prev is "".
func (s *scale) inOrder(prev string, keys []string) bool {
	for _, k := range keys {
		if _, ok := s.place(k); !ok || prev != "" && !s.before(prev, k) {
			return false
		}
		prev = k
	}
	return true
}

// decimal is the form of whole numbers.
type decimal struct{}

func (decimal) number(key string) (uint64, bool) {
	n, err := strconv.ParseUint(key, 10, 62)
	return n, err == nil && (key[0] != '0' || key == "0") && key[0] != '+'
}

func (decimal) key(n uint64) (string, bool) { return strconv.FormatUint(n, 10), n < 1<<62 }

func (decimal) time(time.Time) (uint64, bool) { return 0, false }

// digits is the form of keys that have the same length and consist of digits, for example hexadecimal digits. The first
// digits of a key give its number. Some characters are the same in all keys, such as the dashes of a UUID.
type digits struct {
	alphabet string
	bits     int
	leading  int    // how many digits of a key give its number
	sample   string // one of the keys; all keys have its fixed characters
	fixed    string // '-' where a character is fixed; as long as sample
}

func (f digits) number(key string) (n uint64, ok bool) {
	if len(key) != len(f.sample) || key == "" {
		return 0, false
	}
	left := f.leading
	for i := range len(key) {
		if f.fixed[i] == '-' {
			if key[i] != f.sample[i] {
				return 0, false
			}
			continue
		}
		d := strings.IndexByte(f.alphabet, key[i])
		if d < 0 {
			return 0, false
		}
		if left > 0 {
			n, left = n<<f.bits|uint64(d), left-1
		}
	}
	return n, true
}

func (f digits) key(n uint64) (string, bool) {
	if used := f.bits * f.leading; used < 64 && n>>used != 0 {
		return "", false
	}
	out := []byte(f.sample)
	left := f.leading
	for i := range out {
		if f.fixed[i] == '-' {
			continue
		}
		out[i] = f.alphabet[0]
		if left > 0 {
			left--
			out[i] = f.alphabet[n>>(left*f.bits)&(1<<f.bits-1)]
		}
	}
	return string(out), true
}

// time returns the number of a ULID, an ObjectId or a UUID of version 7.
func (f digits) time(at time.Time) (uint64, bool) {
	switch len(f.sample) {
	case 24:
		return uint64(at.Unix()) << 28, at.Unix() >= 0
	case 26:
		return uint64(at.UnixMilli()) << 10, at.UnixMilli() >= 0
	case 36:
		return uint64(at.UnixMilli()) << 12, at.UnixMilli() >= 0 && f.sample[14] == '7'
	}
	return 0, false
}

// hexOf returns the form of ObjectIds, UUIDs and other keys of hexadecimal digits. A UUID has one digit for its
// version. This digit is fixed if it is the same in all keys.
func hexOf(keys []string) digits {
	f := digits{alphabet: "0123456789abcdef", bits: 4, leading: 15, sample: keys[0]}
	if strings.ContainsAny(strings.Join(keys, ""), "ABCDEF") {
		f.alphabet = "0123456789ABCDEF"
	}
	switch len(f.sample) {
	case 24, 32:
		f.fixed = strings.Repeat(".", len(f.sample))
	case 36:
		f.fixed = "........-....-....-....-............"
		for _, k := range keys {
			if len(k) != 36 || k[14] != f.sample[14] {
				return f
			}
		}
		f.fixed = "........-....--...-....-............"
	default:
		f.sample = ""
	}
	return f
}

// ulidOf returns the form of ULIDs.
func ulidOf(keys []string) digits {
	f := digits{alphabet: "0123456789ABCDEFGHJKMNPQRSTVWXYZ", bits: 5, leading: 12, sample: keys[0], fixed: strings.Repeat(".", 26)}
	if len(f.sample) != 26 {
		f.sample = ""
	}
	if strings.ToLower(f.sample) == f.sample {
		f.alphabet = strings.ToLower(f.alphabet)
	}
	return f
}

// moment is the form of times. Its number counts microseconds.
type moment struct{ layout string }

func momentOf(sample string) moment {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if len(sample) < len(layout) {
			continue
		}
		rest := sample[len(layout):]
		if fraction, found := strings.CutPrefix(rest, "."); found {
			n := len(fraction) - len(strings.TrimLeft(fraction, "0123456789"))
			layout += fmt.Sprintf(".%0*d", n, 0)
			rest = fraction[n:]
		}
		if rest == "" || rest == "Z" || rest == "+00:00" {
			layout += rest
			if _, err := time.Parse(layout, sample); err == nil {
				return moment{layout}
			}
		}
	}
	return moment{}
}

func (f moment) number(key string) (uint64, bool) {
	if len(key) != len(f.layout) || key == "" {
		return 0, false
	}
	at, err := time.Parse(f.layout, key)
	n := at.UnixMicro()
	return uint64(n), err == nil && n >= 0
}

func (f moment) key(n uint64) (string, bool) {
	if n > math.MaxInt64/2000 {
		return "", false
	}
	key := time.UnixMicro(int64(n)).UTC().Format(f.layout)
	return key, len(key) == len(f.layout)
}

func (f moment) time(at time.Time) (uint64, bool) { return uint64(at.UnixMicro()), at.UnixMicro() >= 0 }
