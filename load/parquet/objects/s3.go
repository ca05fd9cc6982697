package objects

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

	"github.com/penstock-data/penstock/state/retry"
)

const s3Part = 32 << 20

// S3 is a bucket of S3, or of a store with the same interface.
type S3 struct {
	core   minio.Core
	bucket string
	Part   uint64 // part size of multipart uploads
}

func newS3(bucket string, o Options) (*S3, error) {
	keys := credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	if o.AccessKey == "" {
		keys = credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		})
	}
	return openS3(bucket, o, keys)
}

func openS3(bucket string, o Options, keys *credentials.Credentials) (*S3, error) {
	endpoint, secure := strings.TrimPrefix(o.Endpoint, "https://"), true
	if rest, ok := strings.CutPrefix(endpoint, "http://"); ok {
		endpoint, secure = rest, false
	}
	if endpoint = strings.TrimSuffix(endpoint, "/"); endpoint == "" {
		endpoint = "s3.amazonaws.com"
	}
	lookup := minio.BucketLookupAuto
	if o.Path {
		lookup = minio.BucketLookupPath
	}
	c, err := minio.NewCore(endpoint, &minio.Options{
		Creds: keys, Secure: secure, Region: o.Region, BucketLookup: lookup, Transport: o.Transport, MaxRetries: storeRetry.Attempts - 1,
	})
	if err != nil {
		return nil, err
	}
	return &S3{core: *c, bucket: bucket, Part: s3Part}, nil
}

// Put implements [Bucket].
func (s *S3) Put(ctx context.Context, key string, body io.ReadSeeker, size int64) error {
	ctx, cancel := limited(ctx, size)
	defer cancel()
	_, err := s.core.Client.PutObject(ctx, s.bucket, key, body, size, minio.PutObjectOptions{
		ContentType: parquetType, PartSize: s.Part,
	})
	return s.fault("store", key, err)
}

// Create implements [Bucket].
func (s *S3) Create(ctx context.Context, key string, text []byte) error {
	ctx, cancel := limited(ctx, int64(len(text)))
	defer cancel()
	o := minio.PutObjectOptions{ContentType: jsonType, DisableMultipart: true}
	o.SetMatchETagExcept("*")
	_, err := s.core.Client.PutObject(ctx, s.bucket, key, bytes.NewReader(text), int64(len(text)), o)
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusPreconditionFailed, http.StatusConflict: // 409 means that a concurrent request stores the same name
		return fmt.Errorf("store %s: %w", key, ErrTaken)
	}
	return s.fault("store", key, err)
}

// Get implements [Bucket].
func (s *S3) Get(ctx context.Context, key string, from, n int64) ([]byte, int64, error) {
	var o minio.GetObjectOptions
	if n > 0 {
		if err := o.SetRange(from, from+n-1); err != nil {
			return nil, 0, err
		}
	}
	for tries := (retry.Policy{Attempts: storeRetry.Attempts}).Begin(); ; { // the library does not retry once the answer has begun
		text, size, err := s.getOnce(ctx, key, n, o)
		if err == nil || !errors.Is(err, io.ErrUnexpectedEOF) || !tries.Again(ctx) {
			return text, size, s.fault("read", key, err)
		}
	}
}

func (s *S3) getOnce(ctx context.Context, key string, n int64, o minio.GetObjectOptions) ([]byte, int64, error) {
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

// List implements [Bucket].
func (s *S3) List(ctx context.Context, prefix string, pageSize int, visit func(string, int64) bool) error {
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

// Folders implements [Bucket].
func (s *S3) Folders(ctx context.Context, prefix string) ([]string, error) {
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

// Remove implements [Bucket].
func (s *S3) Remove(ctx context.Context, key string) error {
	ctx, cancel := limited(ctx, 0)
	defer cancel()
	return s.fault("remove", key, s.core.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{}))
}

// Uploads implements [Bucket].
func (s *S3) Uploads(ctx context.Context, prefix string) (out []Upload, err error) {
	ctx, cancel := limited(ctx, 0)
	defer cancel()
	for u := range s.core.ListIncompleteUploads(ctx, s.bucket, prefix, true) {
		if u.Err != nil {
			return nil, s.fault("list uploads of", prefix, u.Err)
		}
		out = append(out, Upload{Key: u.Key, ID: u.UploadID, Begun: u.Initiated})
	}
	return out, nil
}

// AbortUpload implements [Bucket].
func (s *S3) AbortUpload(ctx context.Context, p Upload) error {
	ctx, cancel := limited(ctx, 0)
	defer cancel()
	err := s.core.AbortMultipartUpload(ctx, s.bucket, p.Key, p.ID)
	if minio.ToErrorResponse(err).Code == minio.NoSuchUpload {
		return nil
	}
	return s.fault("abort the upload of", p.Key, err)
}

// fault adds the operation and the object to an error. Errors of the library contain no credentials.
func (s *S3) fault(doing, key string, err error) error {
	if err == nil {
		return nil
	}
	r := minio.ToErrorResponse(err)
	if r.Code == minio.NoSuchKey || r.Code == "" && r.StatusCode == http.StatusNotFound {
		err = fs.ErrNotExist
	}
	return fmt.Errorf("%s s3://%s/%s: %w", doing, s.bucket, key, err)
}
