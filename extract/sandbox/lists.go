package sandbox

import (
	"net/http"
	"strings"

	"github.com/penstock-data/penstock/extract/sandbox/servers"
)

// ListsPath is the folder of the named lists, below the sandbox's address.
const ListsPath = "/lists/"

// addLists opens the lists that the options name, at the beginning of their first run.
func (s *Server) addLists(all []servers.Named) {
	for _, n := range all {
		l := servers.New(n.Spec)
		l.Begin()
		s.lists[n.Name] = l
	}
}

// list answers a request to a named list. Anyone may read it.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	if l := s.lists[strings.TrimPrefix(r.URL.Path, ListsPath)]; l != nil {
		l.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// nextRun begins the next run of every named list: before the second one, records
// are changed, and the faults that wait for it begin.
func (s *Server) nextRun() int {
	for _, l := range s.lists {
		l.Begin()
	}
	return len(s.lists)
}
