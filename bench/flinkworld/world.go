package main

import (
	"context"
	"encoding/json"
	"log"
	"regexp"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// cluster is one Flink cluster as its JobManager would know it.
type cluster struct {
	uid        types.UID
	session    bool
	jobID      string
	jobName    string
	jobState   string
	started    time.Time
	ready      time.Time
	savepoints map[string]string // location by trigger id
	triggers   int
}

type world struct {
	mu         sync.Mutex
	clusters   map[string]*cluster // by namespace/name
	jobIDs     map[string]string   // as ConfigMaps have them, by namespace/name of the cluster
	calls      map[string]int      // by method and route
	asked      map[string]struct{} // clusters, by namespace/name
	stallBelow string              // clusters whose names come before it accept requests and never answer
	client     kubernetes.Interface
	readyAfter time.Duration
}

var jobIDLine = regexp.MustCompile(`(?m)job-id['"]?\s*:\s*['"]?([0-9a-f]{32})`)

// cluster returns the cluster of that key, made when there is none. The lock is held.
func (w *world) cluster(key string) *cluster {
	c := w.clusters[key]
	if c == nil {
		id, ok := w.jobIDs[key]
		if !ok {
			id = strings.Repeat("0", 32)
		}
		c = &cluster{savepoints: map[string]string{}, jobID: id, jobName: key}
		w.clusters[key] = c
	}
	return c
}

// observeConfigMap learns the id that the operator gave to the job. The end of the cluster before may be heard of later,
// by another watch, and does not take the id along.
func (w *world) observeConfigMap(object any) {
	configMap, ok := object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	name, ok := strings.CutPrefix(configMap.Name, "flink-config-")
	if !ok {
		return
	}
	if id := configMap.Data["job-id"]; id != "" {
		key := configMap.Namespace + "/" + name
		w.mu.Lock()
		w.jobIDs[key] = id
		w.cluster(key).jobID = id
		w.mu.Unlock()
	}
}

func jobIDIn(configMap *corev1.ConfigMap) string {
	for _, file := range []string{"flink-conf.yaml", "config.yaml"} {
		if found := jobIDLine.FindStringSubmatch(configMap.Data[file]); found != nil {
			return found[1]
		}
	}
	return ""
}

// observeDeployment starts the cluster of a JobManager, and reports any Deployment available in a while.
func (w *world) observeDeployment(object any) {
	deployment, ok := object.(*appsv1.Deployment)
	if !ok || deployment.DeletionTimestamp != nil {
		return
	}
	if isBroken(deployment) {
		return
	}
	if deployment.Labels["component"] == "jobmanager" {
		w.mu.Lock()
		c := w.cluster(deployment.Namespace + "/" + deployment.Name)
		if c.uid != deployment.UID {
			c.uid, c.jobState, c.started = deployment.UID, "RUNNING", time.Now()
			c.ready = time.Now().Add(w.readyAfter)
			c.session = isSession(deployment)
		}
		w.mu.Unlock()
	}
	replicas := int32(1)
	if deployment.Spec.Replicas != nil {
		replicas = *deployment.Spec.Replicas
	}
	if deployment.Status.ObservedGeneration != deployment.Generation || deployment.Status.AvailableReplicas != replicas {
		time.AfterFunc(w.readyAfter, func() { w.reportAvailable(deployment, replicas) })
	}
}

// isBroken tells an image that never starts.
func isBroken(deployment *appsv1.Deployment) bool {
	return strings.HasSuffix(deployment.Spec.Template.Spec.Containers[0].Image, ":broken")
}

func isSession(deployment *appsv1.Deployment) bool {
	container := deployment.Spec.Template.Spec.Containers[0]
	args := strings.Join(append(append([]string{}, container.Command...), container.Args...), " ")
	return strings.Contains(args, "kubernetes-session") || strings.Contains(args, " jobmanager") ||
		strings.Contains(args, "jobmanager.sh") && !strings.Contains(args, "kubernetes-")
}

func (w *world) reportAvailable(deployment *appsv1.Deployment, replicas int32) {
	condition := func(kind, reason string) map[string]any {
		return map[string]any{"type": kind, "status": "True", "reason": reason, "lastUpdateTime": metav1.Now(), "lastTransitionTime": metav1.Now()}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"observedGeneration": deployment.Generation,
		"replicas":           replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
		"conditions": []any{condition("Available", "MinimumReplicasAvailable"), condition("Progressing", "NewReplicaSetAvailable")},
	}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = w.client.AppsV1().Deployments(deployment.Namespace).Patch(
		context.Background(), deployment.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !errors.IsNotFound(err) {
		log.Printf("status of %s/%s: %v", deployment.Namespace, deployment.Name, err)
	}
}

func (w *world) forgetDeployment(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if deployment, ok := object.(*appsv1.Deployment); ok && deployment.Labels["component"] == "jobmanager" {
		key := deployment.Namespace + "/" + deployment.Name
		w.mu.Lock()
		if c := w.clusters[key]; c != nil && c.uid == deployment.UID {
			delete(w.clusters, key)
		}
		w.mu.Unlock()
	}
}
