// The parts of Unity's API that the package uses, without their behaviour: there is no Unity here, so the tests only check that
// the code in Runtime/Unity compiles against these declarations.
using System;

namespace UnityEngine
{
    public class SerializeField : Attribute { }

    public class Object
    {
        public static void Destroy(Object obj) { }
        public static void DontDestroyOnLoad(Object target) { }
    }

    public class GameObject : Object { }

    public class MonoBehaviour : Object
    {
        public GameObject gameObject { get { return null; } }
        public object StartCoroutine(System.Collections.IEnumerator routine) { return null; }
    }

    public enum RuntimePlatform { LinuxPlayer }

    public static class Application
    {
        public static string persistentDataPath { get { return ""; } }
        public static string version { get { return ""; } }
        public static RuntimePlatform platform { get { return RuntimePlatform.LinuxPlayer; } }
    }

    public static class Debug
    {
        public static void LogWarning(object message) { }
    }
}

namespace UnityEngine.Networking
{
    public class DownloadHandler
    {
        public string text { get { return ""; } }
    }

    public class DownloadHandlerBuffer : DownloadHandler { }

    public class UploadHandler { }

    public class UploadHandlerRaw : UploadHandler
    {
        public UploadHandlerRaw(byte[] data) { }
    }

    public class UnityWebRequest : IDisposable
    {
        public UnityWebRequest(string url, string method) { }
        public int timeout { get; set; }
        public int redirectLimit { get; set; }
        public long responseCode { get { return 0; } }
        public string error { get { return null; } }
        public DownloadHandler downloadHandler { get; set; }
        public UploadHandler uploadHandler { get; set; }
        public void SetRequestHeader(string name, string value) { }
        public string GetResponseHeader(string name) { return null; }
        public object SendWebRequest() { return null; }
        public void Dispose() { }
    }
}
