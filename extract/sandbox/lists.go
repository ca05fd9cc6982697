package sandbox

import (
	"net/http"
	"strings"

	"github.com/penstock-data/penstock/extract/sandbox/servers"
)

// ListsPath is the path of the named lists.
const ListsPath = "/lists/"

func (s *Server) addLists(all []servers.Named) {
	for _, n := range all {
		l := servers.New(n.Spec)
		l.Begin()
		s.lists[n.Name] = l
	}
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	if l := s.lists[strings.TrimPrefix(r.URL.Path, ListsPath)]; l != nil {
		l.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

func (s *Server) nextRun() int {
	for _, l := range s.lists {
		l.Begin()
	}
	return len(s.lists)
}
