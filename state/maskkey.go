package state

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const keyBytes = 32

// MaskKey returns the key that is stored in the file at path: 64 hexadecimal digits. If the file is missing, MaskKey
// creates it and its folder with a new key, and its second result is true. If several processes do this at the same
// time, all get the same key. After a crash, the file has the whole key or does not exist. MaskKey returns an error if
// the file does not contain a key, or if other users can read it.
func MaskKey(path string) (key string, made bool, err error) {
	key, err = readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, false, err
	}
	if err := makeKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false, fmt.Errorf("create key: %w", err)
	} else if err == nil {
		made = true
	}
	key, err = readKey(path)
	return key, made, err
}

const maskKeyWait = 10 * time.Second

// MaskKeyIn is like [MaskKey], but stores the key in an entry of a vault.
func MaskKeyIn(s *Entry) (key string, made bool, err error) {
	key, made, err = maskKeyIn(s)
	if errors.Is(err, ErrBound) {
		return "", false, fmt.Errorf("the entry %s in %s is not used as the mask key, because it is not marked as the mask key (%w). It was written by another process or by an older version of penstock. "+
			"To keep the masked values, decrypt the entry with the key of the state (age --decrypt), and set mask_key to the result. To create a new key, delete the entry; every masked value then changes", s.Name(), s.Where(), err)
	}
	return key, made, err
}

func maskKeyIn(s *Entry) (key string, made bool, err error) {
	text, err := s.Secret()
	if err != nil || len(text) > 0 {
		return string(text), false, err
	}
	lock, err := s.Lock(context.Background(), maskKeyWait)
	if err != nil {
		return "", false, fmt.Errorf("create key: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if text, err = s.Secret(); err != nil || len(text) > 0 {
		return string(text), false, err
	}
	raw := make([]byte, keyBytes)
	rand.Read(raw)
	key = hex.EncodeToString(raw)
	if err := s.SetSecret([]byte(key)); err != nil {
		return "", false, fmt.Errorf("create key: %w", err)
	}
	return key, true, nil
}

func readKey(path string) (string, error) {
	if err := inspectMade(filepath.Dir(path)); err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	if accessible(info, 0o077) {
		return "", fmt.Errorf("read key %s: other users can read it (mode %04o); run chmod 600 on it", path, info.Mode().Perm())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	key := strings.TrimSpace(string(b))
	if raw, err := hex.DecodeString(key); err != nil || len(raw) != keyBytes {
		return "", fmt.Errorf("read key %s: not a key made by penstock", path)
	}
	return key, nil
}

func makeKey(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	raw := make([]byte, keyBytes)
	rand.Read(raw)
	_, err = f.WriteString(hex.EncodeToString(raw) + "\n")
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(dir)
}
