package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"regexp"
	"strings"
	"time"
)

func reply(rw http.ResponseWriter, code int, v any) {
	rw.Header().Set("Content-Type", "application/json; charset=UTF-8")
	rw.WriteHeader(code)
	if err := json.NewEncoder(rw).Encode(v); err != nil {
		log.Printf("answer: %v", err)
	}
}

func fail(rw http.ResponseWriter, code int, msg string) {
	reply(rw, code, map[string]any{"errors": []string{msg}})
}

var quantiles = map[string]float64{"min": 1, "max": 1, "avg": 1, "p50": 1, "p90": 1, "p95": 1, "p99": 1, "p999": 1}

var hexID = regexp.MustCompile(`[0-9a-f]{32}`)

// serveBench answers the program that measures.
func (w *world) serveBench(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "GET /_stats":
		reply(rw, 200, w.calls)
	case "GET /_asked":
		reply(rw, 200, len(w.asked))
	case "POST /_asked":
		w.asked = map[string]struct{}{}
		reply(rw, 200, nil)
	case "POST /_stall":
		w.stallBelow = r.URL.Query().Get("below")
		reply(rw, 200, nil)
	default:
		fail(rw, 404, "Not found: "+r.URL.Path)
	}
}

// ServeHTTP answers as the JobManager of the cluster that the request is for.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if strings.HasPrefix(path, "/_") {
		w.serveBench(rw, r)
		return
	}
	host := strings.Split(r.Host, ":")[0]
	name, rest, _ := strings.Cut(host, ".")
	ns, _, _ := strings.Cut(rest, ".")
	key := ns + "/" + strings.TrimSuffix(name, "-rest")
	if p, ok := strings.CutPrefix(path, "/cluster/"); ok {
		parts := strings.SplitN(p, "/", 3)
		if len(parts) == 3 {
			key, path = parts[0]+"/"+parts[1], "/"+parts[2]
		}
	}
	path = strings.TrimPrefix(path, "/v1")
	w.mu.Lock()
	w.asked[key] = struct{}{}
	_, cluster, _ := strings.Cut(key, "/")
	stalls := w.stallBelow != "" && cluster < w.stallBelow
	w.mu.Unlock()
	if stalls {
		<-r.Context().Done()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[r.Method+" "+hexID.ReplaceAllString(path, ":id")]++
	c := w.clusters[key]
	if c == nil || time.Now().Before(c.ready) {
		fail(rw, 503, "Service temporarily unavailable due to an ongoing leader election. Please refresh.")
		return
	}
	now := time.Now().UnixMilli()
	start := c.started.UnixMilli()
	done := c.jobState != "RUNNING"
	end := int64(-1)
	if done {
		end = now
	}
	job := map[string]any{"jid": c.jobID, "name": c.jobName, "state": c.jobState, "start-time": start, "end-time": end, "duration": now - start, "last-modification": start,
		"tasks": map[string]int{"total": 2, "created": 0, "scheduled": 0, "deploying": 0, "running": 2, "finished": 0, "canceling": 0, "canceled": 0, "failed": 0, "reconciling": 0, "initializing": 0}}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/config":
		reply(rw, 200, map[string]any{"refresh-interval": 3000, "timezone-name": "UTC", "timezone-offset": 0, "flink-version": "1.20.1", "flink-revision": "0980485 @ 2026-01-01T00:00:00+00:00", "features": map[string]bool{"web-submit": c.session, "web-cancel": false}})
	case path == "/overview":
		reply(rw, 200, map[string]any{"taskmanagers": 1, "slots-total": 2, "slots-available": 0, "jobs-running": 1, "jobs-finished": 0, "jobs-cancelled": 0, "jobs-failed": 0, "flink-version": "1.20.1", "flink-commit": "0980485"})
	case path == "/taskmanagers":
		reply(rw, 200, map[string]any{"taskmanagers": []any{}})
	case path == "/jobs/overview" && c.session:
		reply(rw, 200, map[string]any{"jobs": []any{}})
	case path == "/jobs/overview":
		reply(rw, 200, map[string]any{"jobs": []any{job}})
	case path == "/jobs":
		reply(rw, 200, map[string]any{"jobs": []any{map[string]any{"id": c.jobID, "status": c.jobState}}})
	case path == "/jobmanager/config":
		reply(rw, 200, []any{})
	case len(parts) == 2 && parts[0] == "jobs" && r.Method == "PATCH":
		c.jobState = "CANCELED"
		reply(rw, 202, map[string]any{})
	case len(parts) == 2 && parts[0] == "jobs":
		reply(rw, 200, map[string]any{"jid": c.jobID, "name": c.jobName, "isStoppable": false, "state": c.jobState, "job-type": "STREAMING", "start-time": start, "end-time": end, "duration": now - start, "maxParallelism": -1, "now": now, "timestamps": map[string]int64{"RUNNING": start}, "vertices": []any{}, "status-counts": map[string]int{}, "plan": map[string]any{"jid": c.jobID, "name": c.jobName, "nodes": []any{}}})
	case len(parts) == 3 && parts[2] == "exceptions":
		reply(rw, 200, map[string]any{"root-exception": nil, "timestamp": nil, "all-exceptions": []any{}, "truncated": false, "exceptionHistory": map[string]any{"entries": []any{}, "truncated": false}})
	case len(parts) >= 3 && parts[2] == "checkpoints" && len(parts) == 3 && r.Method == "GET":
		path := fmt.Sprintf("file:/flink-data/checkpoints/%s/chk-7", c.jobID)
		reply(rw, 200, map[string]any{"counts": map[string]int{"restored": 0, "total": 7, "in_progress": 0, "completed": 7, "failed": 0}, "summary": map[string]any{"checkpointed_size": quantiles, "state_size": quantiles, "end_to_end_duration": quantiles, "alignment_buffered": quantiles, "processed_data": quantiles, "persisted_data": quantiles}, "latest": map[string]any{"completed": map[string]any{"@class": "completed", "className": "completed", "id": 7, "status": "COMPLETED", "is_savepoint": false, "savepointFormat": nil, "trigger_timestamp": now - 1000, "latest_ack_timestamp": now - 900, "checkpointed_size": 1, "state_size": 1, "end_to_end_duration": 100, "alignment_buffered": 0, "processed_data": 0, "persisted_data": 0, "num_subtasks": 2, "num_acknowledged_subtasks": 2, "checkpoint_type": "CHECKPOINT", "tasks": map[string]any{}, "external_path": path, "discarded": false}, "savepoint": nil, "failed": nil, "restored": nil}, "history": []any{}})
	case len(parts) == 4 && parts[2] == "checkpoints" && parts[3] == "config":
		reply(rw, 200, map[string]any{"mode": "exactly_once", "interval": 10000, "timeout": 600000, "min_pause": 0, "max_concurrent": 1, "externalization": map[string]any{"enabled": true, "delete_on_cancellation": false}, "state_backend": "hashmap", "checkpoint_storage": "FileSystemCheckpointStorage"})
	case len(parts) == 3 && r.Method == "POST" && (parts[2] == "savepoints" || parts[2] == "stop" || parts[2] == "checkpoints"):
		c.triggers++
		id := fmt.Sprintf("%032x", c.triggers)
		c.savepoints[id] = fmt.Sprintf("file:/flink-data/savepoints/savepoint-%s-%d", c.jobID[:6], c.triggers)
		if parts[2] == "stop" {
			c.jobState = "FINISHED"
		}
		reply(rw, 202, map[string]any{"request-id": id})
	case len(parts) == 4 && (parts[2] == "savepoints" || parts[2] == "checkpoints"):
		loc, ok := c.savepoints[parts[3]]
		if !ok {
			fail(rw, 404, "There is no savepoint operation with triggerId="+parts[3])
			return
		}
		op := map[string]any{"location": loc}
		if parts[2] == "checkpoints" {
			op = map[string]any{"checkpointId": c.triggers}
		}
		reply(rw, 200, map[string]any{"status": map[string]any{"id": "COMPLETED"}, "operation": op})
	default:
		fail(rw, 404, "Not found: "+path)
	}
}
