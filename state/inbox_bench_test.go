package state

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type rawLog struct {
	file  *os.File
	queue chan *rawRecord
	syncs int
}

type rawRecord struct {
	body []byte
	done chan error
}

func openRawLog(b *testing.B) *rawLog {
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	require.NoError(b, err)
	l := &rawLog{file: f, queue: make(chan *rawRecord)}
	var writer sync.WaitGroup
	writer.Go(l.write)
	b.Cleanup(func() {
		close(l.queue)
		writer.Wait()
		require.NoError(b, f.Close())
	})
	return l
}

func (l *rawLog) write() {
	var buf []byte
	for r := range l.queue {
		group := []*rawRecord{r}
		for more := true; more && len(group) < groupEvents; {
			select {
			case r, ok := <-l.queue:
				if more = ok; ok {
					group = append(group, r)
				}
			default:
				more = false
			}
		}
		buf = buf[:0]
		for _, r := range group {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(len(r.body)))
			buf = binary.LittleEndian.AppendUint32(buf, crc32.ChecksumIEEE(r.body))
			buf = append(buf, r.body...)
		}
		_, err := l.file.Write(buf)
		if err == nil {
			err = l.file.Sync()
			l.syncs++
		}
		for _, r := range group {
			r.done <- err
		}
	}
}

func (l *rawLog) append(body []byte) error {
	r := &rawRecord{body, make(chan error, 1)}
	l.queue <- r
	return <-r.done
}

func payload(n int64) Event {
	id := "evt_" + strconv.FormatInt(n, 10)
	body := make([]byte, 900)
	copy(body, id)
	binary.LittleEndian.PutUint64(body[100:], uint64(n)*0x9e3779b97f4a7c15)
	return Event{Source: "main", ID: id, Type: "crm.lead.created", Scheme: "stripe", Received: time.Unix(1764000000, 0), Body: body}
}

func senders(b *testing.B, sent *atomic.Int64, each int, send func(Event) error) time.Duration {
	var all sync.WaitGroup
	start := time.Now()
	for range 64 {
		all.Go(func() {
			for range each {
				if err := send(payload(sent.Add(1))); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

// BenchmarkAcknowledge stores deliveries of 900 bytes, 64 at a time. It measures the inbox, and rawLog as the baseline.
func BenchmarkAcknowledge(b *testing.B) {
	raw := openRawLog(b)
	inbox, err := OpenInbox(b.Context(), b.TempDir(), InboxOptions{})
	require.NoError(b, err)
	groups := 0
	inbox.room = func(ctx context.Context, g []*Delivery) error {
		groups++
		return inbox.roomFor(ctx, g)
	}
	const each = 50
	var sent atomic.Int64
	var rawTime, inboxTime time.Duration
	for b.Loop() {
		rawTime += senders(b, &sent, each, func(e Event) error { return raw.append(e.Body) })
		inboxTime += senders(b, &sent, each, func(e Event) error {
			_, err := inbox.Append(b.Context(), e)
			return err
		})
	}
	n := float64(b.N * 64 * each)
	b.ReportMetric(n/rawTime.Seconds(), "raw-events/s")
	b.ReportMetric(n/inboxTime.Seconds(), "events/s")
	b.ReportMetric(n/float64(raw.syncs), "raw-events/sync")
	b.ReportMetric(n/float64(groups), "events/sync")
	b.ReportMetric(rawTime.Seconds()/inboxTime.Seconds(), "x-of-raw")
	require.NoError(b, inbox.Close())
}
