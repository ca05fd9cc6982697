package servers

import (
	"net/http"
	"strings"
)

func (l *List) detail(r row) row {
	n := r.n
	if other, ok := l.swapped[n]; ok {
		n = other
	}
	return row{n: details + n, id: details + n}
}

// details is the difference between the number of a record and the number of its detail.
const details = 100_000

// Details returns a handler for the details of the records. The last part of the path is the id of the record.
func (l *List) Details() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := l.takeDetail(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
		a.write(w)
	})
}

func (l *List) takeDetail(id string) answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.detailRequests++
	for _, f := range l.spec.Faults {
		if f.Kind == FaultDetail && f.Run == l.run && l.detailRequests >= f.From && (f.To == 0 || l.detailRequests <= f.To) {
			return refuse(http.StatusForbidden, "this action is unauthorized")
		}
	}
	for _, r := range l.rows {
		if l.spec.Records.idText(r.id) == id {
			return answer{status: http.StatusOK, header: http.Header{}, body: map[string]any{"data": l.spec.Records.record(l.detail(r))}}
		}
	}
	return refuse(http.StatusNotFound, "record not found")
}

func (l *List) swap(n int) {
	for i := range min(n, len(l.rows)/2) {
		l.change(i)
		one, other := l.rows[i].n, l.rows[len(l.rows)-1-i].n
		if l.swapped == nil {
			l.swapped = map[int]int{}
		}
		l.swapped[one], l.swapped[other] = other, one
	}
}

func (l *List) marks() []string {
	var all []string
	for _, r := range l.shown(l.rows) {
		if l.spec.Reader.Details {
			r = l.detail(r)
		}
		all = append(all, mark(r))
	}
	return all
}
