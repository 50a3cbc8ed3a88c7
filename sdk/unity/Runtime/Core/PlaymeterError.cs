using System;

namespace Playmeter
{
    /// <summary>An error with a code for programs, passed to callbacks and never thrown.</summary>
    public sealed class PlaymeterError
    {
        /// <summary>
        /// <c>unreachable</c>, <c>waiting</c> (before the server's Retry-After), or the last segment of the server's problem type.
        /// </summary>
        public readonly string Code;
        public readonly string Message;
        /// <summary>0 without a response.</summary>
        public readonly int Status;
        internal readonly double RetryAfterS;

        internal PlaymeterError(string code, string message, int status = 0, double retryAfterS = 0)
        {
            Code = code;
            Message = message;
            Status = status;
            RetryAfterS = retryAfterS;
        }

        /// <summary>True if the same request may succeed later.</summary>
        public bool IsTemporary
        {
            get { return Code == "unreachable" || Status == 408 || Status == 429 || Status >= 500; }
        }

        /// <summary>The delay after the n-th consecutive failure: exponential, with jitter, after any Retry-After.</summary>
        internal double BackoffS(int failures, Random random)
        {
            var exponential = Math.Min(300.0, 0.5 * Math.Pow(2.0, Math.Min(failures, 20)));
            return RetryAfterS + exponential * (0.5 + random.NextDouble() / 2);
        }

        public override string ToString()
        {
            return Code + ": " + Message;
        }
    }
}
