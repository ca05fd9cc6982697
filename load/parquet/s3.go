package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const s3Part = 32 << 20

type s3 struct {
	core   minio.Core
	bucket string
	part   uint64 // part size of multipart uploads
}

func newS3(bucket string, o Store) (*s3, error) {
	endpoint, secure := strings.TrimPrefix(o.Endpoint, "https://"), true
	if rest, ok := strings.CutPrefix(endpoint, "http://"); ok {
		endpoint, secure = rest, false
	}
	if endpoint = strings.TrimSuffix(endpoint, "/"); endpoint == "" {
		endpoint = "s3.amazonaws.com"
	}
	creds := credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	if o.AccessKey == "" {
		creds = credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		})
	}
	lookup := minio.BucketLookupAuto
	if o.Path {
		lookup = minio.BucketLookupPath
	}
	c, err := minio.NewCore(endpoint, &minio.Options{
		Creds: creds, Secure: secure, Region: o.Region, BucketLookup: lookup, Transport: o.Transport, MaxRetries: storeRetries,
	})
	if err != nil {
		return nil, err
	}
	return &s3{core: *c, bucket: bucket, part: s3Part}, nil
}

func (s *s3) put(ctx context.Context, key string, body io.ReadSeeker, size int64) error {
	ctx, cancel := limited(ctx, size)
	defer cancel()
	_, err := s.core.Client.PutObject(ctx, s.bucket, key, body, size, minio.PutObjectOptions{
		ContentType: parquetType, PartSize: s.part,
	})
	return s.fault("store", key, err)
}

func (s *s3) create(ctx context.Context, key string, text []byte) error {
	ctx, cancel := limited(ctx, int64(len(text)))
	defer cancel()
	o := minio.PutObjectOptions{ContentType: jsonType, DisableMultipart: true}
	o.SetMatchETagExcept("*")
	_, err := s.core.Client.PutObject(ctx, s.bucket, key, bytes.NewReader(text), int64(len(text)), o)
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusPreconditionFailed, http.StatusConflict: // 409 means that a concurrent request stores the same name
		return fmt.Errorf("store %s: %w", key, errTaken)
	}
	return s.fault("store", key, err)
}

func (s *s3) get(ctx context.Context, key string, from, n int64) ([]byte, int64, error) {
	var o minio.GetObjectOptions
	if n > 0 {
		if err := o.SetRange(from, from+n-1); err != nil {
			return nil, 0, err
		}
	}
	for attempt := 0; ; attempt++ { // the library does not retry once the answer has begun
		text, size, err := s.getOnce(ctx, key, n, o)
		if err == nil || attempt == storeRetries || ctx.Err() != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
			return text, size, s.fault("read", key, err)
		}
	}
}

func (s *s3) getOnce(ctx context.Context, key string, n int64, o minio.GetObjectOptions) ([]byte, int64, error) {
	ctx, cancel := limited(ctx, n)
	defer cancel()
	body, info, header, err := s.core.GetObject(ctx, s.bucket, key, o)
	if err != nil {
		return nil, 0, err
	}
	defer body.Close()
	size := info.Size
	if _, whole, ok := strings.Cut(header.Get("Content-Range"), "/"); ok {
		if size, err = strconv.ParseInt(whole, 10, 64); err != nil {
			return nil, 0, fmt.Errorf("read Content-Range %q", header.Get("Content-Range"))
		}
	}
	text, err := io.ReadAll(body)
	if err == nil && int64(len(text)) != info.Size {
		err = io.ErrUnexpectedEOF
	}
	return text, size, err
}

func (s *s3) list(ctx context.Context, prefix string, pageSize int, visit func(string, int64) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true, MaxKeys: pageSize}) {
		if o.Err != nil {
			return s.fault("list", prefix, o.Err)
		}
		if !visit(o.Key, o.Size) {
			return nil
		}
	}
	return ctx.Err()
}

func (s *s3) folders(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var out []string
	for o := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if o.Err != nil {
			return nil, s.fault("list", prefix, o.Err)
		}
		if name, ok := strings.CutSuffix(strings.TrimPrefix(o.Key, prefix), "/"); ok && name != "" {
			out = append(out, name)
		}
	}
	return out, ctx.Err()
}

func (s *s3) remove(ctx context.Context, key string) error {
	ctx, cancel := limited(ctx, 0)
	defer cancel()
	return s.fault("remove", key, s.core.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{}))
}

func (s *s3) uploads(ctx context.Context, prefix string) (out []unfinishedUpload, err error) {
	ctx, cancel := limited(ctx, 0)
	defer cancel()
	for u := range s.core.ListIncompleteUploads(ctx, s.bucket, prefix, true) {
		if u.Err != nil {
			return nil, s.fault("list uploads of", prefix, u.Err)
		}
		out = append(out, unfinishedUpload{key: u.Key, id: u.UploadID, begun: u.Initiated})
	}
	return out, nil
}

func (s *s3) abortUploads(ctx context.Context, p unfinishedUpload) error {
	ctx, cancel := limited(ctx, 0)
	defer cancel()
	err := s.core.AbortMultipartUpload(ctx, s.bucket, p.key, p.id)
	if minio.ToErrorResponse(err).Code == minio.NoSuchUpload {
		return nil
	}
	return s.fault("abort the upload of", p.key, err)
}

// fault adds the operation and the object to an error. Errors of the library contain no credentials.
func (s *s3) fault(doing, key string, err error) error {
	if err == nil {
		return nil
	}
	r := minio.ToErrorResponse(err)
	if r.Code == minio.NoSuchKey || r.Code == "" && r.StatusCode == http.StatusNotFound {
		err = fs.ErrNotExist
	}
	return fmt.Errorf("%s s3://%s/%s: %w", doing, s.bucket, key, err)
}
