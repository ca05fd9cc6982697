package board

import (
	"crypto/rand"
	"crypto/sha256"
	"net/url"
	"sync"

	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

// links are secrets that each sign one visitor in, once. They are not the secrets of tokens, so a link that was used is
// worth nothing, wherever a browser or a log has kept it.
type links struct {
	mu     sync.Mutex
	unused map[[sha256.Size]byte]access.Identity
}

// Link returns a path that signs in the first visitor who opens it, with the rights of a token, and leads to a page.
func (b *Board) Link(who access.Identity, page string) string {
	secret := rand.Text()
	b.links.mu.Lock()
	defer b.links.mu.Unlock()
	if b.links.unused == nil {
		b.links.unused = map[[sha256.Size]byte]access.Identity{}
	}
	b.links.unused[sha256.Sum256([]byte(secret))] = who
	return "/signin?" + url.Values{"link": {secret}, "next": {page}}.Encode()
}

// use returns the identity of a link that was not used before.
func (l *links) use(secret string) (who access.Identity, ok bool) {
	if secret == "" {
		return who, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := sha256.Sum256([]byte(secret))
	who, ok = l.unused[k]
	delete(l.unused, k)
	return who, ok
}
