package objects

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// sharedKey signs requests with the key of an Azure account:
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
func sharedKey(account, secret string) (func(*http.Request) error, error) {
	key, err := base64.StdEncoding.DecodeString(secret)
	if err != nil || account == "" {
		return nil, errors.New("want access_key: the storage account, and secret_key: its key in base64, or a shared access signature")
	}
	return func(r *http.Request) error {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(stringToSign(account, r))) // never fails
		r.Header.Set("Authorization", "SharedKey "+account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		return nil
	}, nil
}

func stringToSign(account string, r *http.Request) string {
	length := ""
	if r.ContentLength > 0 {
		length = fmt.Sprint(r.ContentLength)
	}
	lines := []string{r.Method}
	for _, name := range []string{"Content-Encoding", "Content-Language"} {
		lines = append(lines, r.Header.Get(name))
	}
	lines = append(lines, length)
	for _, name := range []string{"Content-MD5", "Content-Type", "Date", "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"} {
		lines = append(lines, r.Header.Get(name))
	}
	var own, query []string
	for name, values := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			own = append(own, name+":"+strings.Join(values, ","))
		}
	}
	for name, values := range r.URL.Query() {
		slices.Sort(values)
		query = append(query, strings.ToLower(name)+":"+strings.Join(values, ","))
	}
	slices.Sort(own)
	slices.Sort(query)
	lines = append(append(lines, own...), "/"+account+r.URL.EscapedPath())
	return strings.Join(append(lines, query...), "\n")
}
