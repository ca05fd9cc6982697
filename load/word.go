package load

import "strings"

// OfStream returns a part of an error message that names a stream: " of crm.leads". A name that begins with _ stands for
// penstock's own records, such as those of a run, and users do not know it: it gives "".
func OfStream(name string) string {
	if strings.HasPrefix(name, "_") {
		return ""
	}
	return " of " + name
}
